"""How many programs a GPU holds: bounded by blocks, threads, shared memory and registers, whichever is the least."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.outcome import Outcome
from tritonrl.core.task import Profile
from tritonrl.harness.sandbox.recording.target import count_resident, find_registers, parse_target
from tritonrl.harness.sandbox.sandbox import Sandbox

from ..conftest import only, request
from ..kernels import POINTWISE

HOPPER = parse_target("sm_90")


@pytest.mark.parametrize(
    ("num_warps", "shared_bytes", "registers", "a_processor"),
    [
        (1, 0, 16, 32),
        (4, 0, 18, 16),
        (8, 0, 64, 4),
        (8, 0, 255, 1),
        (4, 113 << 10, 32, 2),
        (4, 227 << 10, 32, 1),
        (32, 0, 0, 2),
    ],
)
def test_what_a_processor_holds(num_warps: int, shared_bytes: int, registers: int, a_processor: int) -> None:
    """As NVIDIA's occupancy calculator has it for compute capability 9.0."""
    assert count_resident(HOPPER, num_warps, shared_bytes, registers) == a_processor * 132


@given(data=st.binary(max_size=400))
def test_whatever_is_no_code_has_no_registers(data: bytes) -> None:
    """It takes no exception, and no wrong number for one."""
    assert find_registers(data) >= 0
    assert find_registers(b"") == 0


def launched(grid: str, options: str) -> str:
    """The pointwise model on this grid, with these options; each program does the first block again."""
    return POINTWISE.replace("(triton.cdiv(n, 128),)", grid).replace("num_warps=2", options)


@pytest.mark.parametrize("compile", [True, False])
def test_a_block_has_so_many_threads(sandbox: Sandbox, compile: bool) -> None:
    """Compiled or not."""
    profile = Profile.DECLARED if compile else Profile.SMALL
    outcomes = [
        only(
            sandbox.record(launched("(1,)", f"num_warps={warps}"), [request((3, 4), profile=profile, compile=compile)])
        )
        for warps in (32, 64)
    ]
    assert outcomes[0].failure is None
    assert outcomes[1].failure is not None
    assert outcomes[1].failure.outcome is Outcome.OUT_OF_RESOURCES
    assert "hardware limit 1024" in outcomes[1].failure.message


def test_a_cooperative_grid_must_be_resident(sandbox: Sandbox) -> None:
    """As many programs as fit are right, one more is not; without the option any number is."""
    option = "num_warps=4, launch_cooperative_grid=True"
    wanted = [request((3, 4), profile=Profile.DECLARED, compile=True)]
    assert only(sandbox.record(launched("(2112,)", option), wanted)).failure is None
    assert only(sandbox.record(launched("(2113,)", "num_warps=4"), wanted)).failure is None
    failure = only(sandbox.record(launched("(2113,)", option), wanted)).failure
    assert failure is not None
    assert failure.outcome is Outcome.OUT_OF_RESOURCES
    assert "2112" in failure.message


def test_registers_are_read_from_the_code(sandbox: Sandbox) -> None:
    """The assembler's count, which a thread of any kernel has at least eight of."""
    reply = sandbox.record(POINTWISE, [request((3, 4), profile=Profile.DECLARED, compile=True)])
    plan = only(reply).plan
    assert plan is not None
    registers = find_registers(reply.blobs[plan.kernels[0].binary or ""])
    assert 8 <= registers <= 255


def test_a_broken_table_is_no_table() -> None:
    """A header that points nowhere."""
    header = bytearray(64)
    struct.pack_into("<Q", header, 0x28, 1 << 40)
    struct.pack_into("<HHH", header, 0x3A, 64, 3, 1)
    assert find_registers(bytes(header)) == 0
