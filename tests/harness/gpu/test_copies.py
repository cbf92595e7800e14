"""On how many copies of its buffers a plan is timed, on a GPU that is made up (`pretend.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from attrs import evolve
from tritonrl.core.config import TimingConfig
from tritonrl.core.plan import Buffer, BufferKind, LaunchPlan, View
from tritonrl.harness.gpu.device.graphs import PageFillers, Scratch
from tritonrl.harness.gpu.device.memory import DeviceBuffers
from tritonrl.harness.gpu.timing import copies as copies_module
from tritonrl.harness.gpu.timing.copies import BufferCopy, Watcher, make_copies
from tritonrl.harness.gpu.timing.protocol import Protocol
from tritonrl.harness.gpu.timing.stopwatch import count_copies, nothing

from .pretend import pretend_gpu

COPIES = 12
PROTOCOL = Protocol.of(TimingConfig(buffer_copies=COPIES), True)
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


def prepare(plan: LaunchPlan, buffers: DeviceBuffers) -> Callable[[], None]:
    """A step that does nothing."""
    return lambda: None


def make(prepare: Any = prepare, plan: LaunchPlan = PLAN) -> list[BufferCopy]:
    """The copies of a plan."""
    return list(make_copies(plan, {0: VALUES.view(torch.uint8)}, prepare, Scratch(), PROTOCOL))


def test_short_work_has_copies_that_lie_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has buffers, code and a graph of its own, at drawn places and with a filler before all but the first."""
    order: list[str] = []

    def note(plan: LaunchPlan, buffers: DeviceBuffers) -> Callable[[], None]:
        order.append("copy")
        return lambda: None

    monkeypatch.setattr(PageFillers, "add", lambda _: order.append("filler"))
    found = make(note)
    assert order == ["copy", *["filler", "copy"] * (COPIES - 1)]
    assert len({copy.work for copy in found}) == len({copy.results[0].data_ptr() for copy in found}) == COPIES
    assert len({copy.buffers._arena.storage_offset() for copy in found}) > COPIES // 2
    assert all(copy.fillers is found[1].fillers is not None for copy in found[1:])


def test_long_work_has_fewer_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing lies between."""
    monkeypatch.setattr(copies_module, "is_short", lambda _: False)
    monkeypatch.setattr(PageFillers, "add", None)
    assert len(make()) == 3


@pytest.mark.parametrize(("number", "long"), [(1, 1), (2, 2), (3, 2), (10, 2), (40, 10)])
def test_candidate_and_control_have_a_copy_each(number: int, long: int) -> None:
    """Also of long work, if there are two."""
    assert (count_copies(number, True), count_copies(number, False)) == (number, long)


def test_every_copy_begins_with_what_was_given() -> None:
    """Whatever the work did while it was captured and looked at how long it takes."""

    def add(plan: LaunchPlan, buffers: DeviceBuffers) -> Callable[[], None]:
        def work() -> None:
            buffers.view(ALL).add_(1.0)

        return work

    found = make(add)
    assert all(torch.equal(copy.results[0], VALUES) for copy in found)
    for copy in found:
        copy.work()
        assert torch.equal(copy.results[0], VALUES + 1.0)


@pytest.mark.parametrize(("num_bytes", "number"), [(0, COPIES), (1 << 30, 4), (5 << 30, 1)])
def test_what_takes_much_memory_has_fewer_copies(monkeypatch: pytest.MonkeyPatch, num_bytes: int, number: int) -> None:
    """All together take 4 GB, with what launches write to beside the buffers."""
    allocated = [0]

    def take(plan: LaunchPlan, buffers: DeviceBuffers) -> Callable[[], None]:
        allocated[0] += num_bytes
        return lambda: None

    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: allocated[0])
    assert len(make(take)) == number


def test_what_launches_write_to_lives_as_long_as_their_graphs() -> None:
    """The made-up GPU finds a graph whose memory was freed."""

    def prepare(plan: LaunchPlan, buffers: DeviceBuffers) -> Callable[[], None]:
        scratch = torch.zeros(4)

        def work() -> None:
            scratch.add_(1.0)

        return work

    for copy in make(prepare):
        copy.work()


def test_what_python_launches_has_copies_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be captured is launched on each."""
    monkeypatch.setattr(copies_module, "capture_or_launch", lambda work, _: lambda: work())
    assert len(make()) == COPIES


@pytest.mark.parametrize("number", [1, 4])
def test_the_worst_deviation_of_all_copies_is_found(number: int) -> None:
    """From what the first had when the watcher was made, wherever and whenever it was; nothing is left out."""
    found = make()[:number]
    watcher = Watcher(found, Scratch())
    lanes = [copy.watch(watcher) for copy in found]
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
    found = make(plan=plan)[:number]
    watcher = Watcher(found, Scratch())
    assert watcher.find_worst() == (0.0, 0.0, 0.0, 0.0)
    lane = found[-1].watch(watcher)
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
    found = list(make_copies(plan, {0: values.view(torch.uint8)}, prepare, Scratch(), PROTOCOL))
    watcher = Watcher(found, Scratch())
    lane = found[1].watch(watcher)
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
    found = make(plan=two_outputs())
    watcher = Watcher(found, Scratch())
    found[0].watch(watcher).after()
    assert watcher.find_worst() == ()


def test_temporaries_are_blank_before_each_replay() -> None:
    """Those of the copy that is replayed, and no others; what was given is left alone."""
    temporary = Buffer(kind=BufferKind.TEMPORARY, name="", dtype="float32", num_elements=3)
    view = View(buffer=1, offset=0, shape=(3,), stride=(1,), dtype="float32")
    found = make(plan=evolve(PLAN, buffers=(*PLAN.buffers, temporary)))
    watcher = Watcher(found, Scratch())
    for copy in found:
        copy.buffers.view(view).zero_()
    found[1].watch(watcher).before()
    assert [bool(copy.buffers.view(view).isnan().all()) for copy in found] == [n == 1 for n in range(len(found))]
    assert torch.equal(found[1].results[0], VALUES)
    assert make()[0].watch(watcher).before is nothing
