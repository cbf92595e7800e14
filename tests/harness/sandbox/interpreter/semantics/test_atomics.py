"""The lanes of an atomic operation: in an order that nobody knows, and each of them once."""

from __future__ import annotations

import pytest
from tritonrl.harness.sandbox.sandbox import Sandbox

from ..test_buffers import run, values

TICKETS = "t = tl.atomic_add(s_ptr + at * 0, 1.0)\n"
SWAPS = (
    "p = s_ptr.to(tl.pointer_type(tl.int32))\nlast = tl.atomic_xchg(p + at * 0, at)\n"
    "tl.debug_barrier()\nt = tl.load(p) + 0 * at\n"
)


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
