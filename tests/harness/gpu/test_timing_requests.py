"""What an executor does with the requests of a timing, on a GPU that is made up (`pretend.py`)."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from attrs import evolve
from tritonrl.core.config import TimingConfig
from tritonrl.core.outcome import Outcome
from tritonrl.core.plan import Buffer, BufferKind, Copy, LaunchPlan, Operator, View
from tritonrl.core.serialisation import to_plain
from tritonrl.harness.gpu import executor as executor_module
from tritonrl.harness.gpu.device.launcher import Fatal
from tritonrl.harness.gpu.device.memory import DeviceBuffers
from tritonrl.harness.gpu.executor import Executor
from tritonrl.harness.gpu.timing import timer as timer_module
from tritonrl.harness.gpu.timing.protocol import Protocol, ReferenceRequest, ReferenceSource
from tritonrl.harness.gpu.timing.references import References
from tritonrl.harness.gpu.timing.timer import Timer

from ..kernels import POINTWISE
from .pretend import pretend_gpu

SHAPE = (9, 33)
NUM_ELEMENTS = 9 * 33
PROTOCOL = Protocol.of(TimingConfig(trials=6, warmups=1, flush_mb=1, buffer_copies=3), True)
SMALL = evolve(POINTWISE, source=POINTWISE.source.replace("1024", "9").replace("2048", "33"))
SOURCE = ReferenceSource(task=SMALL, dtype="float32", seed=1)


def view(buffer: int) -> View:
    """All of a buffer."""
    return View(buffer=buffer, offset=0, shape=SHAPE, stride=(33, 1), dtype="float32")


PLAN = LaunchPlan(
    buffers=(
        Buffer(kind=BufferKind.INPUT, name="0", dtype="float32", num_elements=NUM_ELEMENTS),
        Buffer(kind=BufferKind.TEMPORARY, name="", dtype="float32", num_elements=NUM_ELEMENTS),
    ),
    kernels=(),
    steps=(Copy(source=view(0), target=view(1)),),
    outputs=(view(1),),
)
VALUES, OTHERS = (np.arange(NUM_ELEMENTS, dtype=np.float32) + first for first in (0.0, 5.0))


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A GPU that is made up, and what was waited for."""
    with pretend_gpu(monkeypatch) as found:
        yield found


def receive(executor: Executor, source: ReferenceSource | None = SOURCE, protocol: Protocol = PROTOCOL) -> Any:
    """The answer to the request that brings the plan and its values."""
    header = {
        "kind": "receive timing",
        "plan": to_plain(PLAN),
        "storages": {"0": 0},
        "binaries": {"a": 0},
        "source": to_plain(source) if source is not None else None,
        "protocol": to_plain(protocol),
    }
    return executor.answer(header, [VALUES.tobytes()])[0]


def prepare(executor: Executor) -> tuple[Any, int]:
    """The last answer of the pieces of preparing, and how many there were."""
    for number in range(1, 1000):
        reply, _ = executor.answer({"kind": "prepare timing"}, [])
        if not reply.get("more"):
            return reply, number
    raise AssertionError("preparing never ends")


def finish(executor: Executor) -> tuple[Any, list[bytes]]:
    """Trials, and what the runs returned."""
    assert executor.answer({"kind": "measure timing", "busy_until": 0.0}, [])[0] == {"failure": None}
    return executor.answer({"kind": "finish timing", "others": {"0": 0}}, [OTHERS.tobytes()])


@pytest.mark.parametrize("calibrated", [True, False])
def test_a_plan_is_timed_by_a_sequence_of_requests(waits: list[str], calibrated: bool) -> None:
    """Received, prepared, measured and finished, a plan has its trials, and its results on both sets of values."""
    executor = Executor()
    protocol = Protocol.of(TimingConfig(trials=6, warmups=1, flush_mb=1, buffer_copies=3), calibrated)
    assert receive(executor, protocol=protocol) == {"failure": None}
    assert prepare(executor)[0] == {"failure": None, "more": False}
    assert waits
    reply, outputs = finish(executor)
    us = reply["timed"]["trials"]["us"]
    counts = {"candidate": 6, "control": 6, "reference": 6} if calibrated else {"candidate": 1, "reference": 1}
    assert {name: len(trials) for name, trials in us.items()} == counts
    assert outputs == [VALUES.tobytes(), OTHERS.tobytes()]
    assert reply["timed"]["deviations"] == ([0.0] if calibrated else [])


def test_preparing_stops_between_its_pieces(waits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer comes when nothing is under way on the device; a piece is a copy at most."""
    monkeypatch.setattr(executor_module, "_PIECE_S", 1e-9)
    executor = Executor()
    assert receive(executor, None) == {"failure": None}
    waits.clear()
    reply, number = prepare(executor)
    assert reply["failure"] is None
    assert number == 2 + len(executor._timer._get_pending().copies)
    assert len(waits) >= number
    assert set(finish(executor)[0]["timed"]["trials"]["us"]) == {"candidate", "control"}


def test_every_copy_is_timed(waits: list[str]) -> None:
    """As a candidate and as its control."""
    executor = Executor()
    receive(executor, None)
    prepare(executor)
    pending = executor._timer._get_pending()
    works = [copy.work for copy in pending.copies]
    assert len(works) == len(set(works)) == PROTOCOL.buffer_copies
    for subject in pending.subjects:
        assert [lane.work for lane in subject.lanes] == works


@pytest.mark.parametrize("place", [0, 1, -1])
def test_what_was_given_is_looked_at_in_every_place(waits: list[str], place: int) -> None:
    """A plan that changes it says so, wherever it did."""
    executor = Executor()
    receive(executor)
    prepare(executor)
    executor._timer._get_pending().copies[place].buffers.view(view(0))[0, 0] += 1.0
    reply, _ = finish(executor)
    assert reply["results"][0]["mutated"] == [0]
    assert reply["results"][0]["out_of_bounds"] == []


def test_the_first_run_that_is_judged_has_what_was_given(waits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a plan that adds to its input did while it was captured."""
    adds = evolve(PLAN, steps=(Operator(name="add", operands=(), outputs=()),), outputs=(view(0),))
    monkeypatch.setitem(globals(), "PLAN", adds)
    monkeypatch.setattr(executor_module, "run_operator", lambda step, view_of: view_of(view(0)).add_(1.0))
    executor = Executor()
    receive(executor, None)
    assert prepare(executor)[0]["failure"] is None
    assert executor._timer._get_pending().first is not None
    (first,) = executor._timer._get_pending().first.outputs
    assert first == (VALUES + 1.0).tobytes()


def test_memory_is_given_back_before_any_is_taken(waits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """References go, and then the scratch memory is made anew."""
    timer = Timer(References())
    done: list[str] = []
    monkeypatch.setattr(References, "clear", lambda _: done.append("references"))
    monkeypatch.setattr(timer_module, "Scratch", lambda: done.append("scratch"))
    timer.clear()
    assert done == ["references", "scratch"]


def test_a_reference_that_does_not_run_is_found_before_a_turn_is_taken(waits: list[str]) -> None:
    """The answer says what is wrong with it, and the executor serves on."""
    executor = Executor()
    broken = evolve(SOURCE, task=evolve(SMALL, source=SMALL.source.replace("torch.randn(", "torch.rund(")))
    failure = receive(executor, broken)["failure"]
    assert failure["outcome"] == Outcome.UNSUPPORTED.name.lower()
    assert "rund" in failure["message"]
    assert receive(executor) == {"failure": None}
    assert prepare(executor)[0]["failure"] is None


@pytest.mark.parametrize("num_times", [1, 2])
def test_memory_that_is_short_once_is_made(waits: list[str], monkeypatch: pytest.MonkeyPatch, num_times: int) -> None:
    """Where something does not fit all that is kept is given back, and preparing begins anew; twice is a failure."""
    executor = Executor()
    assert receive(executor) == {"failure": None}
    left = [num_times]
    reset = DeviceBuffers.reset

    def run_out(self: DeviceBuffers) -> None:
        if left[0]:
            left[0] -= 1
            raise torch.cuda.OutOfMemoryError("out of memory")
        reset(self)

    monkeypatch.setattr(DeviceBuffers, "reset", run_out)
    reply, _ = prepare(executor)
    if num_times == 1:
        assert reply["failure"] is None
        assert finish(executor)[1] == [VALUES.tobytes(), OTHERS.tobytes()]
    else:
        assert reply["failure"]["outcome"] == Outcome.MEMORY_LIMIT.name.lower()


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("CUDA error: an illegal memory access was encountered", Outcome.OUT_OF_BOUNDS),
        ("CUDA error: operation not supported on global/shared address space", Outcome.OUT_OF_BOUNDS),
        ("CUDA error: an illegal instruction was encountered", Outcome.CRASHED),
    ],
)
def test_an_error_that_stays_ends_the_executor(
    waits: list[str], monkeypatch: pytest.MonkeyPatch, text: str, outcome: Outcome
) -> None:
    """Whatever comes next would fail by it: whoever asked gets the outcome, and nobody else is served."""
    executor = Executor()
    assert receive(executor) == {"failure": None}

    def fail(*_: object) -> None:
        raise RuntimeError(text)

    monkeypatch.setattr(torch.cuda, "synchronize", fail)
    with pytest.raises(Fatal) as caught:
        prepare(executor)
    assert caught.value.failure.outcome is outcome


def test_an_error_that_passes_is_a_failure(waits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the device goes on, the executor does."""
    executor = Executor()
    assert receive(executor) == {"failure": None}

    def fail(*_: object) -> None:
        raise RuntimeError("something else")

    with monkeypatch.context() as patch:
        patch.setattr(DeviceBuffers, "reset", fail)
        assert prepare(executor)[0]["failure"]["outcome"] == Outcome.RUN_FAILED.name.lower()
    assert receive(executor) == {"failure": None}
    assert prepare(executor)[0]["failure"] is None
    assert not executor.is_spoilt


def test_memory_in_reserve_is_given_back_and_what_stays_is_not_asked_for_again(
    waits: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Graphs keep some for themselves; only what came since is worth another try."""
    unused = [0, 0]
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: unused[0])
    emptied: list[int] = []

    def empty() -> None:
        emptied.append(unused[0])
        unused[0] = unused[1]

    monkeypatch.setattr(torch.cuda, "empty_cache", empty)
    executor = Executor()
    executor.give_back()
    assert emptied == []
    unused[:] = [20 << 30, 6 << 30]
    executor.give_back()
    executor.give_back()
    assert emptied == [20 << 30]
    unused[0] = 11 << 30
    executor.give_back()
    assert emptied == [20 << 30, 11 << 30]


@pytest.mark.parametrize(("place", "last"), [(0, [0]), (-1, [])])
def test_a_plan_that_writes_beyond_its_buffers_is_the_last(waits: list[str], place: int, last: list[int]) -> None:
    """Its answer comes, and says who wrote where, in whichever place; what else it has written over nobody knows."""
    executor = Executor()
    assert receive(executor) == {"failure": None}
    prepare(executor)
    executor._timer._get_pending().copies[place].buffers._arena[0] = 0
    reply, _ = finish(executor)
    assert [result["out_of_bounds"] for result in reply["results"]] == [[0], last]
    assert executor.is_spoilt


def test_what_is_received_needs_no_gpu(waits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even for the first timing of a context: others time meanwhile."""
    made: list[Timer] = []
    make = timer_module.Timer
    monkeypatch.setattr(executor_module, "Timer", lambda references: made.append(make(references)) or made[-1])
    executor = Executor()
    assert receive(executor) == {"failure": None}
    assert not made
    assert prepare(executor)[0]["failure"] is None
    assert len(made) == 1


def test_what_was_prepared_before_goes_in_a_turn(waits: list[str]) -> None:
    """What is received has none: others time meanwhile, and code that is unloaded could show."""
    executor = Executor()
    assert receive(executor) == {"failure": None}
    executor.answer({"kind": "prepare timing"}, [])
    held = weakref.ref(executor._preparation or executor._timer._get_pending().copies[0])
    assert receive(executor) == {"failure": None}
    assert held() is not None
    assert prepare(executor)[0]["failure"] is None
    assert held() is None
    pending = weakref.ref(executor._timer._get_pending().copies[0])
    finish(executor)
    assert pending() is None


def test_a_reference_is_let_go_when_it_is_measured(waits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """And where that fails, where memory is given back, or where another comes; its eager captures stay ready."""
    timer = Timer(References())
    request = ReferenceRequest(source=SOURCE, protocol=PROTOCOL, compiling="none")
    assert timer.prepare_reference(request) == []
    observed = [weakref.ref(lane.work) for lane in timer._subjects[1].lanes]
    assert {subject.name for subject in timer._subjects} == {"eager", "tf32"}
    assert len(timer.measure_reference(request, []).eager_us) == PROTOCOL.trials
    assert not any(each() for each in observed)
    with pytest.raises(ValueError, match="no reference"):
        timer.measure_reference(request, [])
    timer.prepare_reference(request)
    with monkeypatch.context() as patched:
        patched.setattr(timer._stopwatch, "measure", None)
        with pytest.raises(TypeError):
            timer.measure_reference(request, [])
    assert not timer._subjects
    timer.prepare_reference(request)
    timer.clear()
    assert not timer._subjects
    assert timer._prepared is None
