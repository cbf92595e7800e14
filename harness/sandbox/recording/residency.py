"""Residency: how many programs of a launch a GPU holds at a time, and how many threads a program may have.

A launch whose programs wait for each other (`launch_cooperative_grid`) is refused by the driver where they are not all
resident. What a multiprocessor holds is in the CUDA C++ Programming Guide's table "Technical Specifications per Compute
Capability"; how many registers a thread takes is in the compiled code's `.nv.info`, as the assembler wrote it. Unknown
registers are taken for none: what is refused here is refused by any GPU with as many multiprocessors.
"""

from __future__ import annotations

import struct

from .device_stub import Target

MAX_THREADS = 1024
"""The most threads of one block, on every architecture that Triton compiles for."""
_THREADS = {75: 1024, 86: 1536, 87: 1536, 89: 1536, 120: 1536, 121: 1536}
_MOST_THREADS = 2048
_BLOCKS = {75: 16, 86: 16, 87: 16, 89: 24, 120: 24, 121: 24}
_MOST_BLOCKS = 32
_REGISTERS = 65536
_REGISTERS_AT_ONCE = 256
"""Registers are given to warps in such parts."""
_PARTITIONS = 4
"""Each has a quarter of the registers, and a warp's are in one of them."""
_SHARED_OF_THE_SYSTEM = 1024
"""Bytes that each block takes beside what it asked for."""
_WITH_PAYLOAD, _REGISTER_COUNT = 4, 0x2F
"""A kind of entry in `.nv.info`, and the attribute that says a function's registers."""


def count_resident(target: Target, num_warps: int, shared_bytes: int, registers: int) -> int:
    """Return how many programs the target holds at a time, at the most; 0 `registers` are unknown."""
    architecture = int(target.architecture)
    blocks = min(
        _BLOCKS.get(architecture, _MOST_BLOCKS),
        _THREADS.get(architecture, _MOST_THREADS) // (num_warps * target.warp_size),
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
