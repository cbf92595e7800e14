"""Describe the GPU that a plan is compiled for, and what it can hold at a time.

Shared memory is the opt-in limit of one block, in bytes: CUDA C++ Programming Guide, "Compute Capabilities" table
(maximum amount of shared memory per thread block); for gfx942, the CDNA 3 ISA's 64 KB of local data share.

A launch whose programs wait for each other (`launch_cooperative_grid`) is refused by the driver where they are not all
resident. The guide's "Technical Specifications per Compute Capability" says what a multiprocessor holds; how many
registers a thread takes is in the compiled code's `.nv.info`. Unknown registers are taken for none: what is refused
here is refused by any GPU with as many multiprocessors.
"""

from __future__ import annotations

import struct

from attrs import asdict, evolve, frozen


@frozen
class _Architecture:
    shared_bytes: int
    threads: int = 2048
    blocks: int = 32
    num_processors: int = 132
    device: str = "NVIDIA GPU"


_UNKNOWN = _Architecture(101376)
_ARCHITECTURES = {
    70: _Architecture(98304),
    75: _Architecture(65536, 1024, 16),
    80: _Architecture(166912, num_processors=108, device="NVIDIA A100-SXM4-80GB"),
    86: _Architecture(101376, 1536, 16, 84, "NVIDIA RTX A6000"),
    87: _Architecture(166912, 1536, 16),
    89: _Architecture(101376, 1536, 24, 128, "NVIDIA GeForce RTX 4090"),
    90: _Architecture(232448, device="NVIDIA H100 80GB HBM3"),
    100: _Architecture(232448, num_processors=148, device="NVIDIA B200"),
    101: _Architecture(232448),
    103: _Architecture(232448),
    120: _Architecture(101376, 1536, 24, 170, "NVIDIA GeForce RTX 5090"),
    121: _Architecture(101376, 1536, 24),
}
MAX_THREADS = 1024
"""The most threads of one block, on every architecture that Triton compiles for."""
MAX_CLUSTER = 16
"""The most blocks of a cluster, which Triton asks for beyond the 8 of every architecture with clusters."""
_REGISTERS = 65536
_REGISTERS_AT_ONCE = 256
"""Registers are given to warps in such parts."""
_PARTITIONS = 4
"""Each has a quarter of the registers, and a warp's are in one of them."""
_SHARED_OF_THE_SYSTEM = 1024
"""Bytes that each block takes beside what it asked for."""
_WITH_PAYLOAD, _REGISTER_COUNT = 4, 0x2F
"""A kind of entry in `.nv.info`, and the attribute that says a function's registers."""


@frozen(kw_only=True)
class Target:
    """An architecture to compile for, and a device that has it."""

    name: str
    backend: str
    architecture: int | str
    warp_size: int
    shared_bytes: int
    num_processors: int
    device: str
    threads: int = 2048
    """The most of one multiprocessor, as `blocks` are."""
    blocks: int = 32

    @property
    def binary(self) -> str:
        """Return the name that Triton gives to the loadable code."""
        return "cubin" if self.backend == "cuda" else "hsaco"


def parse_target(name: str) -> Target:
    """Return the target that a name such as "sm_90" or "gfx942" means; raises ValueError."""
    if name.startswith("gfx") and name[3:].isalnum():
        size = {"warp_size": 64 if name.startswith("gfx9") else 32, "shared_bytes": 65536, "num_processors": 304}
        return Target(name=name, backend="hip", architecture=name, device=name, **size)
    digits = name.removeprefix("sm_").removesuffix("a")
    capability = int(digits) if name.startswith("sm_") and digits.isdecimal() else 0
    if capability < min(_ARCHITECTURES):
        raise ValueError(f"{name!r} is no target; write sm_90 or gfx942")
    known = _ARCHITECTURES.get(capability, _UNKNOWN)
    return Target(name=name, backend="cuda", architecture=capability, warp_size=32, **asdict(known))


def find_smaller_card(target: Target) -> Target:
    """Return a device of the same architecture with fewer multiprocessors, as cards differ that have one."""
    return evolve(target, num_processors=target.num_processors * 7 // 8)


def count_resident(target: Target, num_warps: int, shared_bytes: int, registers: int) -> int:
    """Return how many programs the target holds at a time, at the most; 0 `registers` are unknown."""
    blocks = min(
        target.blocks,
        target.threads // (num_warps * target.warp_size),
        (target.shared_bytes + _SHARED_OF_THE_SYSTEM) // (shared_bytes + _SHARED_OF_THE_SYSTEM),
    )
    if registers:
        parts = -(-registers * target.warp_size // _REGISTERS_AT_ONCE)
        warps = _REGISTERS // _PARTITIONS // (parts * _REGISTERS_AT_ONCE) * _PARTITIONS
        blocks = min(blocks, warps // num_warps)
    return blocks * target.num_processors


def find_registers(binary: bytes) -> int:
    """Return how many registers a thread of the compiled code's largest function takes, or 0 where it does not say."""
    try:
        return max(_register_counts(binary), default=0)
    except (struct.error, IndexError, ValueError):
        return 0


def _register_counts(binary: bytes) -> list[int]:
    counts = []
    (table,) = struct.unpack_from("<Q", binary, 0x28)
    size, number, names = struct.unpack_from("<HHH", binary, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", binary, table + index * size) for index in range(number)]
    for name, _, _, _, offset, length in sections:
        start = sections[names][4] + name
        if binary[start : binary.index(b"\0", start)] != b".nv.info":
            continue
        at, end = offset, offset + length
        while at + 4 <= end:
            form, attribute, payload = struct.unpack_from("<BBH", binary, at)
            at += 4
            if form == _WITH_PAYLOAD:
                if attribute == _REGISTER_COUNT:
                    counts.append(struct.unpack_from("<II", binary, at)[1])
                at += payload
    return counts
