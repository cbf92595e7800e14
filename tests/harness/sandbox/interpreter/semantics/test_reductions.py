"""Reductions and scans by functions of a kernel's own: any layout, and functions with branches."""

from __future__ import annotations

import itertools
from functools import cache

import pytest
from tritonrl.harness.sandbox.sandbox import Sandbox

from ..test_buffers import run, values
from .test_conversions import interpret

TICKETS = "t = tl.atomic_add(s_ptr + at * 0, 1.0)\n"
SWAPS = (
    "p = s_ptr.to(tl.pointer_type(tl.int32))\nlast = tl.atomic_xchg(p + at * 0, at)\n"
    "tl.debug_barrier()\nt = tl.load(p) + 0 * at\n"
)
HELPERS = """
@triton.jit
def add(a, b):
    return a + b
@triton.jit
def add_if(a, b):
    if a < b:
        return a + b
    return b + a
@triton.jit
def larger(a, b):
    return tl.where((a > b) or (b != b), a, b)
@triton.jit
def first_order(a, b, c, d):
    return a * c, b * c + d
@triton.jit
def halved(a, b):
    return a * 0.5 + b
@triton.jit
def halved_if(a, b):
    if a != a:
        return b
    return a * 0.5 + b
@triton.jit
def recur(x):
    _, h = tl.associative_scan((x * 0 + 2.0, x), 0, first_order)
    return h
@triton.jit
def twice(x):
    return tl.reshape(tl.associative_scan(tl.reshape(x, (BLOCK // 4, 4)), 1, add), (BLOCK,))
"""
LAYOUTS = [(beside, warps) for beside in (1, 2, 8) for warps in (1, 4)]
SIZES = (1, 2, 16, 64, 512)
BODIES = {
    "sum": "tl.reduce(x, 0, add) + at * 0",
    "sum by branches": "tl.reduce(x, 0, add_if) + at * 0",
    "maximum": "tl.reduce(x, 0, larger) + at * 0",
    "running sum": "tl.associative_scan(x, 0, add)",
    "running sum by branches": "tl.associative_scan(x, 0, add_if)",
    "running sum backwards": "tl.associative_scan(x, 0, add, reverse=True)",
    "float sum": "tl.sum(x, 0) + at * 0",
    "not associative": "tl.associative_scan(x, 0, halved)",
    "not associative, by branches": "tl.associative_scan(x, 0, halved_if)",
}


def _values(size: int) -> tuple[float, ...]:
    return tuple(float((7 * at + 3) % 11 - 5) for at in range(size))


@cache
def _results() -> dict[tuple[str, int, tuple[int, int]], list[float]]:
    keys = list(itertools.product(BODIES, SIZES, LAYOUTS))
    found = interpret([(HELPERS, BODIES[name], _values(size), layout) for name, size, layout in keys])
    return {key: [float(value) for value in values] for key, values in zip(keys, found, strict=True)}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", SIZES)
def test_right_functions_give_the_same_in_any_layout(size: int, layout: tuple[int, int]) -> None:
    """Whole numbers, so that nothing is rounded."""
    values = _values(size)
    running = list(itertools.accumulate(values))
    backwards = list(itertools.accumulate(reversed(values)))[::-1]
    found = {name: _results()[name, size, layout] for name in BODIES}
    for name in ("sum", "sum by branches", "float sum"):
        assert found[name] == [sum(values)] * size
    assert found["maximum"] == [max(values)] * size
    assert found["running sum"] == found["running sum by branches"] == running
    assert found["running sum backwards"] == backwards


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_at_a_time_is_as_all_at_once(layout: tuple[int, int]) -> None:
    """Where a function branches, its values are combined singly, in the same order."""
    for size in SIZES:
        plain, branching = (
            _results()[name, size, layout] for name in ("not associative", "not associative, by branches")
        )
        assert plain == branching


def test_the_order_of_a_scan_is_the_compiled_one() -> None:
    """Read in the PTX for four neighbours a thread: these first, then the lanes, then the warps."""
    (found,) = interpret([(HELPERS, "tl.associative_scan(x, 0, halved)", (1.0, *[0.0] * 1023), (4, 4))])
    values = [float(value) for value in found]
    # one lane further is one step further, however far that lane is: 1, 2, 4, 8 and 16 lanes
    assert values[:4] == [1.0, 0.5, 0.25, 0.125]
    assert values[7] == 0.125 * 0.5
    assert values[4] == 0.125 * 0.5
    assert values[11] == 0.125 * 0.5
    assert values[15] == 0.125 * 0.25
    assert values[31] == 0.125 * 0.125


@pytest.mark.parametrize("body", [TICKETS, SWAPS], ids=["tickets", "exchanges"])
def test_lanes_come_in_another_order_with_another_seed(sandbox: Sandbox, body: str) -> None:
    """What each finds, or the last one leaves, is not the same; with the same seed it is."""
    store = "tl.store(y_ptr + at, t.to(tl.float32), mask=at < n)"
    found = [tuple(values(run(sandbox, body + store, seed=seed))) for seed in (1, 2, 3, 4, 1)]
    assert len(set(found)) > 1
    assert found[0] == found[-1]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_lane_takes_part_once_and_gets_its_own(sandbox: Sandbox, seed: int) -> None:
    """Tickets are all there, sums and largest values are what they always are, and addresses keep their values."""
    all_there = TICKETS + "tl.store(y_ptr + at, tl.sum(t) + 0.0 * at, mask=at < n)"
    assert values(run(sandbox, all_there, seed=seed)) == [28.0] * 5
    own = (
        "tl.atomic_add(s_ptr + at, at.to(tl.float32), mask=at < 4)\nt = tl.atomic_max(s_ptr + at, 2.5)\n"
        "tl.store(y_ptr + at, t, mask=at < n)"
    )
    assert values(run(sandbox, own, seed=seed)) == [0.0, 1.0, 2.0, 3.0, 0.0]
    swap = (
        "p = s_ptr.to(tl.pointer_type(tl.int32)) + at\n"
        "t = tl.atomic_cas(p, at * 0, at)\nt = tl.atomic_cas(p, at, at)\n"
        "tl.store(y_ptr + at, t.to(tl.float32), mask=at < n)"
    )
    assert values(run(sandbox, swap, seed=seed)) == [0.0, 1.0, 2.0, 3.0, 4.0]
