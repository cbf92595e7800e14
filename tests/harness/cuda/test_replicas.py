"""In which places a plan is timed, on a GPU that is made up (`pretend.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tritonrl.core.plan import Buffer, BufferKind, LaunchPlan, View
from tritonrl.harness.cuda import replicas as replicas_module
from tritonrl.harness.cuda.graphs import Scratch
from tritonrl.harness.cuda.memory import DeviceBuffers
from tritonrl.harness.cuda.replicas import Replica, Replicator
from tritonrl.harness.cuda.stopwatch import count_places

from .pretend import pretend_gpu

PLACEMENTS = 3
MEMORY_BYTES = 6 << 30
ALL = View(buffer=0, offset=0, shape=(100,), stride=(1,), dtype="float32")
PLAN = LaunchPlan(
    buffers=(Buffer(kind=BufferKind.INPUT, name="0", dtype="float32", num_elements=100),),
    kernels=(),
    steps=(),
    outputs=(ALL,),
)
VALUES = torch.arange(100, dtype=torch.float32)


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A GPU that is made up."""
    with pretend_gpu(monkeypatch):
        yield


def prepare(plan: LaunchPlan, buffers: DeviceBuffers, copy: int) -> Callable[[], None]:
    """A step that does nothing."""
    return lambda: None


def place(replicator: Replicator) -> list[Replica]:
    """The plan in all places."""
    return list(replicator.place(PLAN, {0: VALUES.view(torch.uint8)}, prepare, Scratch(), PLACEMENTS))


def are_in_stretch(replicator: Replicator, found: list[Replica]) -> list[bool]:
    """Which replicas lie in the memory that is kept."""
    stretch = replicator._stretch
    first = stretch.untyped_storage().data_ptr() if stretch is not None else None
    return [replica.results[0].untyped_storage().data_ptr() == first for replica in found]


def test_short_work_lies_at_places_that_are_drawn() -> None:
    """All but the first in memory that is kept, elsewhere each time, with their own values."""
    replicator = Replicator(MEMORY_BYTES)
    drawn = []
    for _ in range(2):
        found = place(replicator)
        assert len(found) == count_places(PLACEMENTS, short=True)
        assert are_in_stretch(replicator, found) == [False] + [True] * (len(found) - 1)
        assert all(torch.equal(replica.results[0], VALUES) for replica in found)
        drawn.append({replica.results[0].storage_offset() for replica in found[1:]})
        assert len(drawn[-1]) == len(found) - 1
    assert drawn[0] != drawn[1]


def test_what_an_earlier_plan_left_is_gone() -> None:
    """Beside the plan that is timed, the memory that is kept holds nothing."""
    replicator = Replicator(MEMORY_BYTES)
    place(replicator)
    assert replicator._stretch is not None
    replicator._stretch.fill_(1)
    found = place(replicator)
    for replica in found[1:]:
        replica.buffers._arena.zero_()
    assert not bool(replicator._stretch.any())


def test_other_work_lies_where_it_comes_to_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes none of the memory that is kept, and fewer places."""
    monkeypatch.setattr(replicas_module, "is_short", lambda work: False)
    replicator = Replicator(MEMORY_BYTES)
    assert len(place(replicator)) == PLACEMENTS
    assert replicator._stretch is None


def test_a_small_gpu_keeps_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the places would crowd what may be kept, the allocator says where they are."""
    replicator = Replicator(MEMORY_BYTES >> 6)
    found = place(replicator)
    assert are_in_stretch(replicator, found) == [False] * count_places(PLACEMENTS, short=True)
    assert replicator._stretch is None


def test_memory_that_is_short_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that has room itself is timed all the same; what is given back is asked for again."""
    replicator = Replicator(MEMORY_BYTES)
    empty: Any = torch.empty

    def run_out(size: Any, *arguments: Any, **options: Any) -> torch.Tensor:
        if size == replicator._stretch_bytes:
            raise torch.cuda.OutOfMemoryError("out of memory")
        tensor: torch.Tensor = empty(size, *arguments, **options)
        return tensor

    with monkeypatch.context() as patched:
        patched.setattr(torch, "empty", run_out)
        assert len(place(replicator)) == count_places(PLACEMENTS, short=True)
        assert replicator._stretch is None
    place(replicator)
    assert replicator._stretch is not None
    replicator.clear()
    assert replicator._stretch is None


def test_each_place_of_short_work_has_a_copy_of_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other work is launched by one in all places."""
    copies: list[int] = []

    def note(plan: LaunchPlan, buffers: DeviceBuffers, copy: int) -> Callable[[], None]:
        copies.append(copy)
        return lambda: None

    def place_all() -> list[int]:
        copies.clear()
        for _ in Replicator(MEMORY_BYTES).place(PLAN, {0: VALUES.view(torch.uint8)}, note, Scratch(), PLACEMENTS):
            pass
        return copies

    assert place_all() == list(range(count_places(PLACEMENTS, short=True)))
    monkeypatch.setattr(replicas_module, "is_short", lambda work: False)
    assert place_all() == [0] * PLACEMENTS
