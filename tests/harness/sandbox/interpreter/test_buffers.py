"""Accesses outside buffers, lanes that meet, and the order of programs: what a GPU leaves to luck is not lucky here."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tritonrl.core.candidate import Variant
from tritonrl.core.outcome import Outcome
from tritonrl.core.run import RunRequest, RunResult
from tritonrl.harness.sandbox.sandbox import Sandbox

from ..conftest import only, request
from ..kernels import HEADER, POINTWISE

COPY = "tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)"


def run(sandbox: Sandbox, body: str, *, num_programs: int = 1, reverse: bool = False, seed: int = 1) -> RunResult:
    """What a kernel with this body makes of five ones in a block of eight."""
    source = (
        HEADER
        + "@triton.jit\ndef kernel(x_ptr, s_ptr, y_ptr, n, BLOCK: tl.constexpr):\n    at = tl.arange(0, BLOCK)\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
        + "class ModelNew(nn.Module):\n    def forward(self, x):\n        y = torch.zeros_like(x)\n"
        + f"        kernel[({num_programs},)](x, torch.zeros(8, device=x.device), y, x.numel(), BLOCK=8)\n"
        + "        return y\n"
    )
    plan = only(sandbox.record(source, [request((5,))])).plan
    assert plan is not None
    data = np.ones(5, np.float32).tobytes()
    asked = RunRequest(variant=Variant.ORIGINAL, plan=plan, storages={0: data}, seed=seed, reverse=reverse)
    reply = sandbox.run(source, [asked])
    assert reply.failure is None, reply.failure
    return reply.results[0]


def values(result: RunResult) -> list[float]:
    """The returned numbers."""
    assert result.failure is None, result.failure
    return [float(value) for value in np.frombuffer(result.outputs[0], np.float32)]


@pytest.mark.parametrize(
    "body",
    [
        "tl.store(y_ptr + at, tl.load(x_ptr + at), mask=at < n)",
        COPY.replace("y_ptr + at", "y_ptr + at + 1"),
        COPY + "\ntl.store(y_ptr, tl.load(x_ptr - 1))",
        COPY + "\ntl.store(y_ptr, tl.load(x_ptr + 300))",
        COPY + "\ntl.atomic_add(y_ptr + at, 0.0)",
        COPY + "\ntl.atomic_cas(s_ptr.to(tl.pointer_type(tl.int32)) + 8, 0, 0)",
        COPY + "\ntl.load((x_ptr.to(tl.int64) + 18).to(tl.pointer_type(tl.float32)))",
    ],
    ids=["read", "written", "before", "far", "atomic", "swap", "half inside"],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_access_outside_every_buffer_is_refused(sandbox: Sandbox, body: str, seed: int) -> None:
    """Reads too, by one byte or by far, wherever the buffers lie."""
    result = run(sandbox, body, seed=seed)
    assert result.failure is not None
    assert result.failure.outcome is Outcome.OUT_OF_BOUNDS
    assert re.match(r"kernel, line \d+, accessed memory outside every buffer", result.failure.message)


@pytest.mark.parametrize(
    ("body", "is_refused"),
    [
        ("tl.load((x_ptr + 1).to(tl.pointer_type(tl.int64)))", True),
        ("tl.load((x_ptr + 2).to(tl.pointer_type(tl.int64)))", False),
        ("tl.load((x_ptr + at).to(tl.pointer_type(tl.int64)), mask=at == 2)", False),
        ("tl.load((x_ptr.to(tl.int64) + 2).to(tl.pointer_type(tl.float32)))", True),
        ("tl.store((y_ptr.to(tl.int64) + 3).to(tl.pointer_type(tl.int16)), 0)", True),
        ("tl.load((x_ptr.to(tl.int64) + 3).to(tl.pointer_type(tl.int8)))", False),
    ],
)
def test_a_misaligned_access_is_refused(sandbox: Sandbox, body: str, is_refused: bool) -> None:
    """A GPU ends the process where an address is no multiple of the element's size; masked lanes are not asked."""
    failure = run(sandbox, f"{COPY}\n{body}").failure
    assert (failure is not None) is is_refused
    if failure is not None:
        assert failure.outcome is Outcome.RUN_FAILED
        assert re.match(r"kernel, line \d+, accessed a misaligned address", failure.message)


def test_a_false_assumption_is_named(sandbox: Sandbox) -> None:
    """The message says what did not hold."""
    failure = run(sandbox, f"{COPY}\ntl.assume(n > 5)").failure
    assert failure is not None
    assert (failure.outcome, "by tl.assume does not hold" in failure.message) == (Outcome.RUN_FAILED, True)


@pytest.mark.parametrize("body", [COPY, COPY + "\ntl.store(y_ptr + at + 100, 1.0, mask=at > 99)"])
def test_lanes_that_a_mask_excludes_access_nothing(sandbox: Sandbox, body: str) -> None:
    """They may point anywhere, and where buffers lie does not matter."""
    assert values(run(sandbox, body, seed=1)) == values(run(sandbox, body, seed=2)) == [1.0] * 5


def test_programs_run_in_reverse_where_that_is_asked(sandbox: Sandbox) -> None:
    """Each finds how many came before it, and its own number and the grid are what they always are."""
    body = (
        "i = tl.program_id(0)\nbefore = tl.atomic_add(s_ptr, 1.0)\n"
        "tl.store(y_ptr + i, before * 10 + i + tl.num_programs(0) * 100)"
    )
    assert values(run(sandbox, body, num_programs=5)) == [500.0, 511.0, 522.0, 533.0, 544.0]
    assert values(run(sandbox, body, num_programs=5, reverse=True)) == [540.0, 531.0, 522.0, 513.0, 504.0]


def test_a_few_programs_of_large_buffers_need_no_memory_for_the_rest(sandbox: Sandbox) -> None:
    """Who accessed each of 80 million elements would fill more than the limit, if it were written for all of them."""
    num = 40 << 20
    plan = only(sandbox.record(POINTWISE, [request((num,), dtype="float16")])).plan
    assert plan is not None
    asked = RunRequest(variant=Variant.DECLARED, plan=plan, storages={0: bytes(2 * num)}, seed=1, num_programs=4)
    reply = sandbox.run(POINTWISE, [asked])
    assert reply.failure is None, reply.failure
    assert reply.results[0].failure is None, reply.results[0].failure


@pytest.mark.parametrize(
    ("body", "is_race"),
    [
        (COPY + "\ntl.store(s_ptr + at // 2, at.to(tl.float32))", True),
        (COPY + "\ntl.store(s_ptr + at // 2, (at // 2).to(tl.float32))", False),
        (COPY + "\ntl.store(s_ptr + at // 4 * 4, at.to(tl.float32), mask=at % 4 == 1)", False),
        (COPY + "\ntl.store(s_ptr + at, 1.0)\ntl.store(s_ptr + at, tl.load(s_ptr + 7 - at))", True),
        (COPY + "\ntl.store(s_ptr + at, 1.0)\ntl.store(s_ptr + at, tl.load(s_ptr + at) + 1)", False),
        (
            COPY + "\ntl.store(s_ptr + at, 1.0)\ntl.debug_barrier()\ntl.store(s_ptr + at, tl.load(s_ptr + 7 - at))",
            False,
        ),
    ],
    ids=["unequal", "equal", "one lane each", "other lane", "same lane", "barrier"],
)
def test_lanes_that_meet_without_a_barrier_race(sandbox: Sandbox, body: str, is_race: bool) -> None:
    """One element must not get two values at once, nor be read by another lane than stored it."""
    result = run(sandbox, body)
    assert (result.failure is not None and result.failure.outcome is Outcome.RUN_FAILED) is is_race
    assert is_race or values(result) == [1.0] * 5


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_buffers_begin_where_a_gpu_has_them(sandbox: Sandbox, reverse: bool, seed: int) -> None:
    """At multiples of 512, and in the run where chance comes out otherwise of far more."""
    least = 65536 if reverse else 512
    body = (
        f"bits = (x_ptr.to(tl.int64) | y_ptr.to(tl.int64) | s_ptr.to(tl.int64)) & {least - 1}\n"
        "tl.store(y_ptr + at, bits.to(tl.float32) + 0 * at, mask=at < n)"
    )
    assert values(run(sandbox, body, reverse=reverse, seed=seed)) == [0.0] * 5


@pytest.mark.parametrize("reverse", [False, True])
def test_what_a_mask_excludes_is_zero_however_chance_comes_out(sandbox: Sandbox, reverse: bool) -> None:
    """Compiled code sets these lanes to zero before it loads the others."""
    body = "v = tl.load(x_ptr + at, mask=at < 0)\ntl.store(y_ptr + at, tl.where(v == 0.0, 1.0, 2.0), mask=at < n)"
    assert values(run(sandbox, body, reverse=reverse)) == [1.0] * 5
