"""In which places a plan is timed, on a GPU that is made up (`pretend.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from attrs import evolve
from tritonrl.core.config import ClockConfig
from tritonrl.core.plan import Buffer, BufferKind, Kernel, LaunchPlan, View
from tritonrl.harness.gpu.device.graphs import Graph, Scratch
from tritonrl.harness.gpu.device.launcher import DriverError
from tritonrl.harness.gpu.device.memory import PAGE_BYTES, DeviceBuffers
from tritonrl.harness.gpu.timing import replicas as replicas_module
from tritonrl.harness.gpu.timing.protocol import Protocol
from tritonrl.harness.gpu.timing.replicas import Replica, Replicator, Watcher
from tritonrl.harness.gpu.timing.stopwatch import count_places, nothing

from .pretend import pretend_gpu

PLACEMENTS = 3
PROTOCOL = Protocol.of(ClockConfig(placements=PLACEMENTS), True)
NUM_LANES = 200
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


def place(
    replicator: Replicator, prepare: Any = prepare, plan: LaunchPlan = PLAN, protocol: Protocol = PROTOCOL
) -> list[Replica]:
    """The plan in all places; each comes once for each of its lanes."""
    found = list(replicator.place(plan, {0: VALUES.view(torch.uint8)}, prepare, Scratch(), protocol))
    replicas = list(dict.fromkeys(found))
    assert found == [replica for replica in replicas for _ in replica.works]
    return replicas


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


@pytest.mark.parametrize(
    ("num_nodes", "num_replays", "number"),
    [(0, 200, 200), (1, 200, 200), (2, 200, 100), (9, 200, 60), (1, 400, 200), (1, 50, 50), (2, 50, 50), (1, 4, 4)],
)
def test_a_kernel_has_more_lanes_than_a_chain(
    monkeypatch: pytest.MonkeyPatch, num_nodes: int, num_replays: int, number: int
) -> None:
    """What takes more nodes takes longer, and as many pages time; nothing has more lanes than replays, or places."""
    monkeypatch.setattr(replicas_module, "count_nodes", lambda _: num_nodes)
    protocol = Protocol.of(ClockConfig(placements=PLACEMENTS, trials=num_replays // 2, replays=2), True)
    asked: list[int] = []
    find_rooms = replicas_module._find_rooms
    monkeypatch.setattr(replicas_module, "_find_rooms", lambda n, k: asked.append(k) or find_rooms(n, k))
    for memory_bytes in (MEMORY_BYTES, MEMORY_BYTES >> 6):
        found = place(Replicator(memory_bytes), protocol=protocol)
        assert count_lanes(found) == number
        assert len(found) <= number
    assert asked == [min(number, count_places(PLACEMENTS, short=True)) - 1]


@pytest.mark.parametrize(
    ("num_bytes", "num_scratch_bytes", "num_lanes", "num_places"),
    [(0, 0, NUM_LANES, 1 + NUM_ROOMS), (1 << 30, 0, NUM_LANES, 4), (5 << 30, 0, NUM_LANES, 1), (0, 1 << 29, 8, 8)],
)
def test_what_takes_much_memory_has_fewer_places(
    monkeypatch: pytest.MonkeyPatch, num_bytes: int, num_scratch_bytes: int, num_lanes: int, num_places: int
) -> None:
    """All replicas together take 4 GB; of what launches write to beside the buffers there is one for each lane."""
    allocated = [0]

    def prepare(plan: LaunchPlan, buffers: DeviceBuffers, copy: int) -> Callable[[], None]:
        allocated[0] += num_scratch_bytes
        return lambda: None

    def make(*arguments: Any, **options: Any) -> DeviceBuffers:
        allocated[0] += num_bytes
        return DeviceBuffers(*arguments, **options)

    monkeypatch.setattr(replicas_module, "DeviceBuffers", make)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: allocated[0])
    found = place(Replicator(MEMORY_BYTES), prepare)
    assert (count_lanes(found), len(found)) == (num_lanes, num_places)
    monkeypatch.setattr(replicas_module, "is_short", lambda work: False)
    affordable = (4 << 30) // max(1, num_bytes + num_scratch_bytes)
    assert len(place(Replicator(MEMORY_BYTES), prepare)) == min(PLACEMENTS, max(1, affordable))


def test_what_launches_write_to_lives_as_long_as_their_graphs() -> None:
    """The made-up GPU finds a graph whose memory was freed."""

    def prepare(plan: LaunchPlan, buffers: DeviceBuffers, copy: int) -> Callable[[], None]:
        scratch = torch.zeros(4)

        def work() -> None:
            scratch.add_(1.0)

        return work

    for replica in place(Replicator(MEMORY_BYTES), prepare):
        for work in replica.works:
            work()


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
    kernel = Kernel(qualname="kernel", source_sha256="")
    for num_kernels, num_copies in ((5, 10), (51, 1)):
        copies.clear()
        place(Replicator(MEMORY_BYTES), note, evolve(PLAN, kernels=(kernel,) * num_kernels))
        assert set(copies) == set(range(num_copies))
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


def two_outputs(*views: View) -> LaunchPlan:
    """A plan that returns these parts of what it was given."""
    return evolve(PLAN, outputs=views)


@pytest.mark.parametrize("number", [1, 4])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_every_output_is_looked_at(number: int, which: int) -> None:
    """Beside an empty one, and each by itself: real numbers by their norm, others by how many differ."""
    rows = evolve(ALL, offset=20, shape=(4, 5), stride=(10, 2))
    whole = View(buffer=0, offset=60, shape=(8,), stride=(1,), dtype="int32")
    plan = two_outputs(evolve(ALL, shape=(10,)), rows, whole, evolve(ALL, shape=(0,)))
    found = place(Replicator(MEMORY_BYTES), plan=plan)[:number]
    watcher = Watcher(found, Scratch())
    assert watcher.find_worst() == (0.0, 0.0, 0.0, 0.0)
    lane = found[-1].watch(watcher)[-1]
    result = found[-1].results[which]
    first = result.clone()
    result.view(-1)[1:2].zero_() if which != 1 else result[1, 2].zero_()
    lane.after()
    norm = float(torch.linalg.vector_norm(first.double() - result.double()) / torch.linalg.vector_norm(first.double()))
    expected = [0.0, 0.0, 0.0, 0.0]
    expected[which] = norm if which != 2 else 1 / 8
    assert watcher.find_worst() == pytest.approx(tuple(expected))


def test_what_is_not_a_number_twice_is_the_same() -> None:
    """And an infinity; the norm is that of what is finite, and a large one in half precision is none."""
    buffer = Buffer(kind=BufferKind.INPUT, name="0", dtype="float16", num_elements=4)
    view = View(buffer=0, offset=0, shape=(4,), stride=(1,), dtype="float16")
    plan = LaunchPlan(buffers=(buffer,), kernels=(), steps=(), outputs=(view,))
    values = torch.tensor([float("nan"), float("inf"), 60000.0, 60000.0], dtype=torch.float16)
    found = list(
        dict.fromkeys(Replicator(MEMORY_BYTES).place(plan, {0: values.view(torch.uint8)}, prepare, Scratch(), PROTOCOL))
    )
    watcher = Watcher(found, Scratch())
    lane = found[1].watch(watcher)[0]
    lane.after()
    assert watcher.find_worst() == (0.0,)
    found[1].results[0][3] = -60000.0
    lane.after()
    assert watcher.find_worst() == (pytest.approx(120000.0 / 84852.8, rel=1e-3),)
    found[1].results[0][0] = 1.0
    lane.after()
    assert watcher.find_worst() == (None,)


def test_a_plan_without_results_has_no_deviations() -> None:
    """There is nothing to look at."""
    found = place(Replicator(MEMORY_BYTES), plan=two_outputs())
    watcher = Watcher(found, Scratch())
    found[0].watch(watcher)[0].after()
    assert watcher.find_worst() == ()


def test_temporaries_are_blank_before_each_replay() -> None:
    """Those of the replica that is replayed, and no others; what was given is left alone."""
    temporary = Buffer(kind=BufferKind.TEMPORARY, name="", dtype="float32", num_elements=3)
    view = View(buffer=1, offset=0, shape=(3,), stride=(1,), dtype="float32")
    found = place(Replicator(MEMORY_BYTES), plan=evolve(PLAN, buffers=(*PLAN.buffers, temporary)))
    watcher = Watcher(found, Scratch())
    for replica in found:
        replica.buffers.view(view).zero_()
    found[1].watch(watcher)[0].before()
    assert [bool(replica.buffers.view(view).isnan().all()) for replica in found] == [n == 1 for n in range(len(found))]
    assert torch.equal(found[1].results[0], VALUES)
    assert place(Replicator(MEMORY_BYTES))[0].watch(watcher)[0].before is nothing
