"""Executors shared by threads, with answers that are made up: who waits for whom, and who is asked what."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from attrs import evolve
from tritonrl.core.candidate import Failure, ReferenceTiming, Variant
from tritonrl.core.config import TimingConfig
from tritonrl.core.outcome import Outcome
from tritonrl.core.plan import Buffer, BufferKind, LaunchPlan
from tritonrl.core.run import RunRequest, RunResult
from tritonrl.core.serialisation import to_plain
from tritonrl.harness.errors import SandboxError
from tritonrl.harness.gpu.backend import WAITING_FOR_TURN, CudaBackend, choose_number
from tritonrl.harness.gpu.gpu_lock import GpuLock
from tritonrl.harness.gpu.processes import EXECUTOR_BYTES, Executor, Lost, Parent, needed_bytes
from tritonrl.harness.gpu.timing.protocol import Protocol, ReferenceRequest, ReferenceSource, Timed, Trials

from ..kernels import POINTWISE

PLAN = LaunchPlan(buffers=(), kernels=(), steps=(), outputs=())
PROTOCOL = Protocol.of(TimingConfig(), True)
TIMED = Timed(trials=Trials(us={"candidate": (1.0,)}))
CRASH = Failure(outcome=Outcome.OUT_OF_BOUNDS, message="an illegal address")
SHORT = Failure(outcome=Outcome.MEMORY_LIMIT, message="out of memory")
PATIENCE_S = 20.0


class LoggedLock(GpuLock):
    """A lock that nobody else takes, and which kind is held."""

    def __init__(self) -> None:
        self.held = ""
        self.num_taken = 0

    @contextmanager
    def _hold(self, kind: int) -> Iterator[None]:
        if self.held:
            yield  # within another turn
            return
        self.held = "shared" if kind == fcntl.LOCK_SH else "exclusive"
        self.num_taken += 1
        try:
            yield
        finally:
            self.held = ""


class FakeExecutor(Executor):
    """Answers as an executor does, without a process; loses its child at the kinds in `crashes`, once each."""

    def __init__(self, device: int) -> None:
        self.device, self.name, self.lock = device, "made up", LoggedLock()
        self.has_served = False
        self.num_closed = 0
        self.has_child = True
        self.asked: list[tuple[str, str]] = []
        self.crashes: list[str] = []
        self.crash = CRASH
        self.gate: threading.Barrier | None = None
        self.pieces_left = 1
        self.num_short = 0
        """How many runs and preparations find too little memory from now on."""

    @property
    def is_up(self) -> bool:
        """Whether there is a context."""
        return self.has_child

    def open(self) -> None:
        """Have a context again."""
        assert isinstance(self.lock, LoggedLock)
        self.asked.append(("open", self.lock.held))
        self.has_child = True

    def close(self) -> None:
        """The next request has a context in which nothing has run."""
        self.num_closed += 1
        self.has_served = self.has_child = False

    def end(self) -> None:
        """As closing."""
        self.close()

    def ask(self, header: dict[str, Any], blobs: Sequence[bytes], limit_s: float) -> tuple[dict[str, Any], list[bytes]]:
        """The reply to one request."""
        kind = header["kind"]
        assert isinstance(self.lock, LoggedLock)
        self.asked.append((kind, self.lock.held))
        if kind in self.crashes:
            self.crashes.remove(kind)
            self.close()
            raise Lost(self.crash)
        if self.gate is not None:
            self.gate.wait(PATIENCE_S)
        self.has_served |= kind != "warm up"
        is_short = kind in ("run", "prepare timing") and self.num_short > 0
        self.num_short -= is_short
        match kind:
            case "run":
                result = RunResult(variant=Variant.ORIGINAL, failure=SHORT if is_short else None)
                return {"results": [to_plain(result)]}, []
            case "prepare timing" if is_short:
                return {"failure": to_plain(SHORT), "more": False}, []
            case "rank":
                return {"us": [2.0, None, 1.0], "failure": None}, []
            case "prepare timing":
                self.pieces_left -= 1
                return {"failure": None, "more": self.pieces_left > 0}, []
            case "prepare reference":
                return {"notes": [], "failure": None}, []
            case "measure reference":
                return {"timing": to_plain(ReferenceTiming(device="made up", eager_us=(3.0,))), "failure": None}, []
            case "finish timing":
                return {"timed": to_plain(TIMED), "results": [], "failure": None}, []
        return {"failure": None}, []


class FakeParent(Parent):
    """Starts executors that are made up."""

    def __init__(self) -> None:
        self.started: list[FakeExecutor] = []

    def start(self, device: int) -> Executor:
        """One more."""
        self.started.append(FakeExecutor(device))
        return self.started[-1]

    def close(self) -> None:
        """Nothing to end."""


def open_backend(per_gpu: int, devices: Sequence[int] = (0,)) -> tuple[CudaBackend, list[FakeExecutor]]:
    """A backend with made-up executors."""
    parent = FakeParent()
    backend = CudaBackend(lambda _: None, devices, per_gpu=per_gpu, parent=parent)
    for executor in parent.started:
        assert executor.asked == [("warm up", "shared")]
        executor.asked.clear()
    return backend, parent.started


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_gpu_that_cannot_be_warmed_up_cannot_be_used(monkeypatch: pytest.MonkeyPatch, is_lost: bool) -> None:
    """Whether the executor ends by it or says so."""

    def ask(self: FakeExecutor, header: object, blobs: object, limit_s: float) -> tuple[dict[str, Any], list[bytes]]:
        if is_lost:
            raise Lost(CRASH)
        return {"failure": to_plain(CRASH)}, []

    monkeypatch.setattr(FakeExecutor, "ask", ask)
    with pytest.raises(SandboxError, match="GPU 0 cannot be used: an illegal address"):
        open_backend(1)


def time_task(backend: CudaBackend, task_id: str = "t") -> Timed:
    """A timing of the empty plan beside a task's reference."""
    source = ReferenceSource(task=evolve(POINTWISE, task_id=task_id), dtype="float32", seed=0)
    return backend.time(PLAN, {}, {}, source, PROTOCOL)


def test_only_the_trials_need_the_gpu_alone() -> None:
    """A timing is prepared and finished in shared turns, and measured in an exclusive one."""
    backend, (executor,) = open_backend(1)
    assert time_task(backend) == TIMED
    assert executor.asked == [
        ("receive timing", ""),
        ("prepare timing", "shared"),
        ("measure timing", "exclusive"),
        ("finish timing", "shared"),
    ]
    assert {WAITING_FOR_TURN, "prepare timing", "measure timing", "finish timing"} <= set(backend.seconds)


def test_a_timing_is_prepared_in_pieces_and_others_time_between_them() -> None:
    """Between two pieces the turn is given back, so that who waits to time does not wait for all of them."""
    backend, (executor,) = open_backend(1)
    executor.pieces_left = 3
    assert time_task(backend) == TIMED
    assert [kind for kind, _ in executor.asked].count("prepare timing") == 3
    assert isinstance(executor.lock, LoggedLock)
    # that it was received took none, and the first was for warming up
    assert executor.lock.num_taken == 1 + len(executor.asked) - 1


def test_runs_go_on_beside_one_another() -> None:
    """Three executors answer three runs at the same time, each in a shared turn."""
    backend, executors = open_backend(3)
    gate = threading.Barrier(3)
    for executor in executors:
        executor.gate = gate
    with ThreadPoolExecutor(3) as pool:
        replies = list(pool.map(lambda _: backend.run("", []), range(3)))
    assert [reply.failure for reply in replies] == [None] * 3
    assert [executor.asked for executor in executors] == [[("run", "shared")]] * 3


def test_a_context_is_opened_in_a_turn() -> None:
    """So nobody times meanwhile, whatever turn the request takes for which the executor needs one."""
    backend, (executor,) = open_backend(1)
    executor.crashes = ["prepare timing"]
    assert time_task(backend).failure == CRASH
    executor.asked.clear()
    assert time_task(backend) == TIMED
    assert executor.asked[:3] == [("open", "shared"), ("receive timing", ""), ("prepare timing", "shared")]
    assert time_task(backend) == TIMED
    assert [held for kind, held in executor.asked if kind == "open"] == ["shared"]
    executor.close()
    assert backend.rank([PLAN], [{}], PROTOCOL) == [2.0, None, 1.0]
    assert executor.asked[-2:] == [("open", "exclusive"), ("rank", "exclusive")]


def test_the_context_of_references_is_opened_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is opened when the first reference is measured, beside whatever goes on then."""
    backend, (executor,) = open_backend(1)
    turns = executor.lock
    assert isinstance(turns, LoggedLock)
    held: list[str] = []
    start = FakeParent.start

    def note(self: FakeParent, device: int) -> Executor:
        held.append(turns.held)
        return start(self, device)

    monkeypatch.setattr(FakeParent, "start", note)
    source = ReferenceSource(task=POINTWISE, dtype="float32", seed=0)
    backend.measure_reference(ReferenceRequest(source=source, protocol=PROTOCOL, compiling="none"))
    assert held == ["shared"]


def test_a_task_returns_to_the_executor_that_has_its_reference() -> None:
    """Where there is a choice, timings of one task are one executor's; another task may go elsewhere."""
    backend, executors = open_backend(2)
    for task_id in ("a", "b", "a", "b", "b", "a"):
        time_task(backend, task_id)
    counts = sorted(len(executor.asked) for executor in executors)
    assert sum(counts) == 24
    assert counts[0] in (0, 12)


KINDS_OF_A_TIMING = ["receive timing", "prepare timing", "measure timing", "finish timing"]


@pytest.mark.parametrize("kind", ["run", *KINDS_OF_A_TIMING])
def test_a_lost_child_in_which_others_ran_is_tried_once_more(kind: str) -> None:
    """An earlier plan may have spoilt the context, so one loss is no verdict; in a fresh one it is."""
    backend, (executor,) = open_backend(1)

    def failure() -> Failure | None:
        return backend.run("", []).failure if kind == "run" else time_task(backend).failure

    executor.crashes = [kind]
    assert failure() == CRASH  # nobody else's doing
    assert failure() is None
    executor.crashes = [kind]
    assert failure() is None
    executor.crashes = [kind, kind]
    assert failure() == CRASH
    assert failure() is None


def test_a_timing_can_do_without_a_second_try() -> None:
    """What is known to be wrong already is not worth another context."""
    backend, (executor,) = open_backend(1)
    assert time_task(backend) == TIMED
    executor.crashes = ["measure timing"] * 2
    assert backend.time(PLAN, {}, {}, None, PROTOCOL, is_repeated=False).failure == CRASH
    assert executor.crashes == ["measure timing"]


def test_what_does_not_end_is_not_tried_again() -> None:
    """It would take the limit once more."""
    backend, (executor,) = open_backend(1)
    assert backend.run("", []).failure is None
    executor.crash = Failure(outcome=Outcome.TIMEOUT)
    executor.crashes = ["run", "run"]
    assert backend.run("", []).failure == executor.crash
    assert executor.crashes == ["run"]


def test_a_timing_can_ask_for_a_context_of_its_own() -> None:
    """One in which plans have run is ended first, and one in which none has is as good as new."""
    backend, (executor,) = open_backend(1)
    source = ReferenceSource(task=POINTWISE, dtype="float32", seed=0)
    assert backend.time(PLAN, {}, {}, source, PROTOCOL, alone=True) == TIMED
    assert executor.num_closed == 0
    assert backend.time(PLAN, {}, {}, source, PROTOCOL, alone=True) == TIMED
    assert executor.num_closed == 1


def test_each_gpu_has_its_executors() -> None:
    """Two GPUs with two executors each are four, and all are used when four runs come at once."""
    backend, executors = open_backend(2, devices=(0, 1))
    gate = threading.Barrier(4)
    for executor in executors:
        executor.gate = gate
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: backend.run("", []), range(4)))
    assert sorted(executor.device for executor in executors if executor.asked) == [0, 0, 1, 1]


def test_a_ranking_is_taken_alone() -> None:
    """What a tuner may choose is measured in an exclusive turn; what does not run has no time."""
    backend, (executor,) = open_backend(1)
    assert backend.rank([PLAN] * 3, [{}] * 3, PROTOCOL) == [2.0, None, 1.0]
    assert executor.asked == [("rank", "exclusive")]
    executor.crashes = ["rank"]
    assert backend.rank([PLAN], [{}], PROTOCOL) == CRASH


def test_a_reference_is_compiled_in_a_turn_and_timed_alone() -> None:
    """Only the loading of a compiler, which hardly touches the GPU, takes no turn, and is done once."""
    backend, executors = open_backend(1)
    source = ReferenceSource(task=POINTWISE, dtype="float32", seed=0)
    request = ReferenceRequest(source=source, protocol=PROTOCOL, compiling="default")
    found = backend.measure_reference(request)
    assert isinstance(found, ReferenceTiming)
    assert found.eager_us == (3.0,)
    once = [("prepare reference", "shared"), ("measure reference", "exclusive")]
    assert executors[1].asked == [("load compiler", ""), *once]
    backend.measure_reference(request)
    assert executors[1].asked == [("load compiler", ""), *once, *once]
    assert executors[0].asked == []


def test_an_executor_is_free_again_whatever_happened() -> None:
    """A crash leaves nobody waiting."""
    backend, (executor,) = open_backend(1)
    executor.crashes = ["run"]
    assert backend.run("", []).failure == CRASH
    assert backend.run("", []).failure is None


def run_or_time(backend: CudaBackend, kind: str, plan: LaunchPlan = PLAN) -> Failure | None:
    """The failure of a run, or of a timing."""
    if kind == "run":
        reply = backend.run("", [RunRequest(variant=Variant.ORIGINAL, plan=plan, storages={})])
        return reply.results[0].failure
    return backend.time(plan, {}, {}, None, PROTOCOL).failure


def with_temporary(num_bytes: int) -> LaunchPlan:
    """A plan with so much memory in between."""
    buffer = Buffer(kind=BufferKind.TEMPORARY, name="", dtype="float32", num_elements=num_bytes // 4)
    return evolve(PLAN, buffers=(buffer,))


@pytest.mark.parametrize("kind", ["run", "prepare timing"])
def test_memory_that_others_hold_is_not_the_plans_doing(kind: str) -> None:
    """What should have fitted is asked again, alone and in a fresh context; only there it is a verdict."""
    backend, (executor,) = open_backend(1)
    executor.num_short = 1
    assert run_or_time(backend, kind) is None
    assert executor.num_closed == 1
    executor.num_short = 2
    assert run_or_time(backend, kind) == SHORT
    assert executor.num_short == 0
    assert run_or_time(backend, kind) is None


@pytest.mark.parametrize("kind", ["run", "prepare timing"])
def test_a_plan_that_asks_for_too_much_is_refused_at_once(kind: str) -> None:
    """Nobody else has to wait for that, and whatever others hold changes nothing."""
    backend, (executor,) = open_backend(1)
    plan = with_temporary(EXECUTOR_BYTES // 2 + 4)
    assert needed_bytes(plan) == EXECUTOR_BYTES + 8
    executor.num_short = 1
    assert run_or_time(backend, kind, plan) == SHORT
    assert executor.num_closed == 0
    assert all(turn != "exclusive" for _, turn in executor.asked)


@pytest.mark.parametrize(
    ("gigabytes", "processors", "devices", "expected"),
    [([141], 16, [0], 8), ([141], 64, [0], 8), ([141], 2, [0], 1), ([24], 16, [0], 1), ([141, 80], 16, [0, 1], 4)],
)
def test_executors_are_as_many_as_processors_and_memory_allow(
    monkeypatch: pytest.MonkeyPatch, gigabytes: list[int], processors: int, devices: list[int], expected: int
) -> None:
    """Eight at most, one for two processors, one for 16 GB of the smallest GPU, and never none."""

    class Properties:
        def __init__(self, device: int) -> None:
            self.total_memory = gigabytes[device] << 30

    monkeypatch.setattr(torch.cuda, "get_device_properties", Properties)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    assert choose_number(devices) == expected
