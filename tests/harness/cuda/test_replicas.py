"""In which places a plan is timed, on a GPU that is made up (`pretend.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tritonrl.core.plan import Buffer, BufferKind, LaunchPlan, View
from tritonrl.harness.cuda import replicas as replicas_module
from tritonrl.harness.cuda.graphs import Graph, Scratch
from tritonrl.harness.cuda.launcher import DriverError
from tritonrl.harness.cuda.memory import PAGE_BYTES, DeviceBuffers
from tritonrl.harness.cuda.replicas import NUM_LANES, Replica, Replicator, Watcher
from tritonrl.harness.cuda.stopwatch import count_places

from .pretend import pretend_gpu

PLACEMENTS = 3
MEMORY_BYTES = 6 << 30
NUM_ROOMS = (MEMORY_BYTES >> 6) // (2 * PAGE_BYTES)
"""In half of a 64th of the memory."""
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


def place(replicator: Replicator, prepare: Any = prepare) -> list[Replica]:
    """The plan in all places."""
    return list(replicator.place(PLAN, {0: VALUES.view(torch.uint8)}, prepare, Scratch(), PLACEMENTS))


def count_lanes(found: list[Replica]) -> int:
    """Of all replicas together; no two are the same."""
    works = [work for replica in found for work in replica.works]
    assert len(set(works)) == len(works)
    return len(works)


def are_in_stretch(replicator: Replicator, found: list[Replica]) -> list[bool]:
    """Which replicas lie in the memory that is kept."""
    stretch = replicator._stretch
    first = stretch.untyped_storage().data_ptr() if stretch is not None else None
    return [replica.results[0].untyped_storage().data_ptr() == first for replica in found]


def test_short_work_lies_at_places_that_are_drawn() -> None:
    """All but the first in memory that is kept, elsewhere each time, with their own values and about as many lanes."""
    replicator = Replicator(MEMORY_BYTES)
    drawn = []
    for _ in range(2):
        found = place(replicator)
        assert len(found) == 1 + NUM_ROOMS
        assert are_in_stretch(replicator, found) == [False] + [True] * NUM_ROOMS
        assert all(torch.equal(replica.results[0], VALUES) for replica in found)
        assert count_lanes(found) == NUM_LANES
        assert {len(replica.works) for replica in found} == {NUM_LANES // len(found)}
        drawn.append({replica.results[0].storage_offset() for replica in found[1:]})
        assert len(drawn[-1]) == NUM_ROOMS
    assert drawn[0] != drawn[1]


def test_every_place_begins_with_what_was_given() -> None:
    """Whatever the work did to its first place while it was looked at how long it takes."""

    def add(plan: LaunchPlan, buffers: DeviceBuffers, copy: int) -> Callable[[], None]:
        def work() -> None:
            buffers.view(ALL).add_(1.0)

        return work

    found = place(Replicator(MEMORY_BYTES), add)
    # the made-up GPU runs what it captures
    assert all(torch.equal(replica.results[0], VALUES + len(replica.works)) for replica in found)
    for replica in found:
        replica.buffers.reset()
        replica.works[-1]()
        assert torch.equal(replica.results[0], VALUES + 1.0)


@pytest.mark.parametrize(("num_nodes", "number"), [(0, NUM_LANES), (1, NUM_LANES), (2, NUM_LANES // 2), (9, 60)])
def test_a_kernel_has_more_lanes_than_a_chain(monkeypatch: pytest.MonkeyPatch, num_nodes: int, number: int) -> None:
    """What takes more nodes takes longer, and as many pages time."""
    monkeypatch.setattr(replicas_module, "count_nodes", lambda _: num_nodes)
    assert count_lanes(place(Replicator(MEMORY_BYTES))) == number


@pytest.mark.parametrize(
    ("num_pages", "num_lanes", "num_places"),
    [(NUM_LANES + 1, NUM_LANES, 1 + NUM_ROOMS), (10, 10, 2), (8, 8, 1), (1, 1, 1), (0, 2 * PLACEMENTS, 2 * PLACEMENTS)],
)
def test_pages_that_end_leave_fewer_lanes(
    monkeypatch: pytest.MonkeyPatch, num_pages: int, num_lanes: int, num_places: int
) -> None:
    """Where there are none, the work is as it was captured, in each of a few places."""
    left = [num_pages]

    def put(graph: Graph, pages: object) -> Graph:
        if not left[0]:
            raise DriverError("CUDA_ERROR_OUT_OF_MEMORY")
        left[0] -= 1
        return graph

    monkeypatch.setattr(replicas_module, "put_in_page", put)
    found = place(Replicator(MEMORY_BYTES))
    assert count_lanes(found) == num_lanes
    assert len(found) == num_places
    assert all(replica.works for replica in found)


def test_what_python_launches_has_no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in as many places as a captured plan that finds none."""
    monkeypatch.setattr(replicas_module, "capture_or_launch", lambda work, _: lambda: work())
    monkeypatch.setattr(replicas_module, "put_in_page", None)
    found = place(Replicator(MEMORY_BYTES))
    assert len(found) == count_lanes(found) == count_places(PLACEMENTS, short=True)


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


def test_a_small_gpu_keeps_little() -> None:
    """Where the places would crowd what may be kept, the allocator says where they are."""
    replicator = Replicator(MEMORY_BYTES >> 6)
    found = place(replicator)
    assert are_in_stretch(replicator, found) == [False] * count_places(PLACEMENTS, short=True)
    assert count_lanes(found) == NUM_LANES
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


def test_short_work_is_launched_by_many_copies_of_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """About equally often; other work is launched by one in all places."""
    copies: list[int] = []

    def note(plan: LaunchPlan, buffers: DeviceBuffers, copy: int) -> Callable[[], None]:
        copies.append(copy)
        return lambda: None

    place(Replicator(MEMORY_BYTES), note)
    assert copies.pop(0) == 0
    assert Counter(copies) == dict.fromkeys(range(50), NUM_LANES // 50)
    copies.clear()
    monkeypatch.setattr(replicas_module, "is_short", lambda work: False)
    place(Replicator(MEMORY_BYTES), note)
    assert copies == [0] * PLACEMENTS


@pytest.mark.parametrize("number", [1, 4])
def test_the_worst_deviation_of_all_replicas_is_found(number: int) -> None:
    """From what the first had when the watcher was made, wherever and whenever it was; nothing is left out."""
    found = place(Replicator(MEMORY_BYTES))[:number]
    watcher = Watcher(found, Scratch())
    lanes = [lane for replica in found for lane in replica.watch(watcher)]
    for lane in lanes:
        lane.after()
    assert watcher.find_worst() == (0.0,)
    found[-1].results[0][3] += 1.0
    lanes[-1].after()
    found[-1].results[0][3] -= 1.0
    lanes[-1].after()
    assert watcher.find_worst() == (pytest.approx(1.0 / float(VALUES.norm())),)
    found[0].results[0][0] = float("nan")
    lanes[-1].after()
    assert (watcher.find_worst() == (None,)) == (number == 1)
    lanes[0].after()
    assert watcher.find_worst() == (None,)
