"""The judge's side of the executors: requests out, replies in, and what each kind of death means.

Most of what a run costs is not the GPU's: values travel, memory is laid out, graphs are captured. So each GPU has
several executors, each with one request at a time, and what is timed is alone all the same: whoever uses a GPU takes
turns (`harness.gpu.gpu_lock`), the executors of other processes and the oracle too. A timing is several requests: it is
received without a turn, prepared in shared ones that are short, so that nobody who times waits for long, measured in an
exclusive one, and finished in a shared one. A successor's context is opened in a turn as well. References have an
executor of their own, so that compiling them holds nobody up. A request that outlives its limit or loses the context
costs its executor's child, whose successor is up before the next request; no other candidate's verdict is touched by
that.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum, auto
from typing import Any, TypeVar

from attrs import evolve

from ...core.candidate import Failure, ReferenceTiming
from ...core.outcome import Outcome
from ...core.plan import LaunchPlan
from ...core.run import RunReply, RunRequest, RunResult
from ...core.serialisation import from_plain, to_plain
from ..errors import SandboxError
from ..sandbox.wire import read_run_result
from .processes import EXECUTOR_BYTES, Executor, Lost, Parent, with_memory_retry
from .timing.protocol import Protocol, ReferenceRequest, ReferenceSource, Timed

_COMPILE_LIMIT_S = 300.0
_WARM_UP_LIMIT_S = 120.0
_MOST_EXECUTORS = 8
_PROCESSORS_AN_EXECUTOR = 2
"""What prepares runs is a processor's work, so that more executors than this are of no use."""
T = TypeVar("T")
GetBlob = Callable[[str], bytes | None]
WAITING_FOR_EXECUTOR, WAITING_FOR_TURN = "waiting for an executor", "waiting for a turn"
"""Kinds of `CudaBackend.seconds` that are no work."""


class Turn(Enum):
    """What a request needs of the GPU: nothing, some of it, or all."""

    NONE = auto()
    SHARED = auto()
    ALONE = auto()


class CudaBackend:
    """Executors for some GPUs, `per_gpu` on each (by default as processors and memory allow); for many threads."""

    def __init__(
        self,
        get_blob: GetBlob,
        devices: Iterable[int] = (0,),
        limit_s: float = 30.0,
        per_gpu: int | None = None,
        parent: Parent | None = None,
    ) -> None:
        self._begin(get_blob, limit_s)
        devices = list(devices)
        number = per_gpu or choose_number(devices)
        self._parent = parent or Parent()
        wanted = [device for _ in range(number) for device in devices]
        try:
            with ThreadPoolExecutor(len(wanted)) as pool:
                self.executors = list(pool.map(self._open, wanted))
        except BaseException:
            self._parent.close()
            raise
        self._free = list(self.executors)
        self._known: dict[str, Executor] = {}
        self._measuring_references = threading.RLock()

    def _begin(self, get_blob: GetBlob, limit_s: float) -> None:
        """Set up what a backend on another process's executors has too."""
        self._get_blob = get_blob
        self.limit_s = limit_s
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """What requests took so far, by kind, and what was waited for."""
        self.reference_executor: Executor | None = None
        self.busy_until: defaultdict[int, float] = defaultdict(float)
        """When the last exclusive turn on each GPU ended, on the monotonic clock."""
        self._change = threading.Condition()
        self._waited = threading.local()

    def _open(self, device: int) -> Executor:
        """An executor that has loaded what the first plan would have to."""
        executor = self._parent.start(device)
        try:
            with executor.lock.shared():
                reply, _ = executor.ask({"kind": "warm up"}, [], _WARM_UP_LIMIT_S)
            failure = from_plain(reply["failure"], Failure) if reply["failure"] is not None else None
        except Lost as lost:
            failure = lost.failure
        if failure is not None:
            raise SandboxError(f"GPU {device} cannot be used: {failure.message}")
        return executor

    def __enter__(self) -> CudaBackend:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for executor in (*self.executors, self.reference_executor):
            if executor is not None:
                executor.close()
        self._parent.close()

    def run(self, source: str, requests: Sequence[RunRequest]) -> RunReply:
        """Run plans; the source plays no part, since no candidate's Python is needed."""
        began = time.perf_counter()
        blobs: list[bytes] = []
        plains = [
            {"variant": r.variant.value, "plan": to_plain(r.plan), "storages": place(r.storages, blobs)}
            for r in requests
        ]
        header = {"kind": "run", "requests": plains, "binaries": self.binaries([r.plan for r in requests], blobs)}

        def run(executor: Executor) -> tuple[RunResult, ...]:
            reply, outputs = try_twice(executor, lambda: self.ask(executor, header, blobs))
            return tuple(read_run_result(plain, outputs) for plain in reply["results"])

        plans = [request.plan for request in requests]
        try:
            with self.executor() as executor:
                results = with_memory_retry(
                    executor, plans, lambda: run(executor), lambda found: [r.failure for r in found], self._count_turn
                )
        except Lost as lost:
            return RunReply(failure=lost.failure, seconds=time.perf_counter() - began)
        return RunReply(results=results, seconds=time.perf_counter() - began)

    @property
    def device_name(self) -> str:
        """The GPUs' name; where they differ, their names."""
        return " + ".join(sorted({executor.name for executor in self.executors}))

    def time(
        self,
        plan: LaunchPlan,
        storages: dict[int, bytes],
        others: dict[int, bytes],
        source: ReferenceSource | None,
        protocol: Protocol,
        alone: bool = False,
        is_repeated: bool = True,
    ) -> Timed:
        """A plan's trials beside those of its reference, on the values in `storages`, and its results on both.

        `alone` asks for a context in which no other plan has run. A plan that ends a context which others may have
        spoilt gets another one if `is_repeated`.
        """
        blobs: list[bytes] = []
        header = {
            "kind": "receive timing",
            "plan": to_plain(plan),
            "storages": place(storages, blobs),
            "binaries": self.binaries([plan], blobs),
            "source": to_plain(source) if source is not None else None,
            "protocol": to_plain(protocol),
        }
        fresh: list[bytes] = []
        finish = {"kind": "finish timing", "others": place(others, fresh)}
        limit_s = self.limit_s + (protocol.attempts + 1) * protocol.budget_s

        def measure(executor: Executor) -> Timed:
            reply, _ = self.ask(executor, header, blobs, limit_s, Turn.NONE)
            is_ready = False
            while reply["failure"] is None and not is_ready:
                reply, _ = self.ask(executor, {"kind": "prepare timing"}, [], limit_s)
                is_ready = not reply.get("more")
            if reply["failure"] is None:
                reply, _ = self.ask(executor, {"kind": "measure timing"}, [], limit_s, Turn.ALONE)
            if reply["failure"] is not None:
                return Timed(failure=from_plain(reply["failure"], Failure))
            reply, outputs = self.ask(executor, finish, fresh, limit_s)
            if reply["failure"] is not None:
                return Timed(failure=from_plain(reply["failure"], Failure))
            timed = from_plain(reply["timed"], Timed)
            if not reply["results"]:
                return timed
            first, last = (read_run_result(plain, outputs) for plain in reply["results"])
            return evolve(timed, first=first, fresh=last)

        def try_to_measure(executor: Executor) -> Timed:
            return try_twice(executor, lambda: measure(executor)) if is_repeated else measure(executor)

        with self.executor(source.task.task_id if source is not None else "") as executor:
            if alone and executor.has_served:
                executor.close()
            try:
                return with_memory_retry(
                    executor, [plan], lambda: try_to_measure(executor), lambda timed: [timed.failure], self._count_turn
                )
            except Lost as lost:
                return Timed(failure=lost.failure)

    def rank(
        self, plans: Sequence[LaunchPlan], storages: Sequence[dict[int, bytes]], protocol: Protocol
    ) -> list[float | None] | Failure:
        """Microseconds of several plans in turns, null for one that does not run here."""
        blobs: list[bytes] = []
        header = {
            "kind": "rank",
            "plans": [to_plain(plan) for plan in plans],
            "storages": [place(one, blobs) for one in storages],
            "binaries": self.binaries(plans, blobs),
            "protocol": to_plain(protocol),
        }
        found: list[float | None] | Failure = self._measure_alone(header, blobs, len(plans) * protocol.budget_s)
        return found

    def compare_protocols(
        self, plan: LaunchPlan, storages: dict[int, bytes], protocol: Protocol, num_repeats: int
    ) -> list[dict[str, list[float]]] | Failure:
        """Measurements of a plan: the trials of each, in microseconds by method (`harness.gpu.timing.timer`)."""
        blobs: list[bytes] = []
        header = {
            "kind": "compare",
            "plan": to_plain(plan),
            "storages": place(storages, blobs),
            "binaries": self.binaries([plan], blobs),
            "protocol": to_plain(protocol),
            "num_repeats": num_repeats,
        }
        budget_s = 4 * num_repeats * protocol.budget_s
        found: list[dict[str, list[float]]] | Failure = self._measure_alone(header, blobs, budget_s)
        return found

    def _measure_alone(self, header: dict[str, Any], blobs: list[bytes], budget_s: float) -> Any:
        """The microseconds that one exclusive request answers with, or a failure."""
        try:
            with self.executor() as executor:
                reply, _ = self.ask(executor, header, blobs, self.limit_s + budget_s, Turn.ALONE)
        except Lost as lost:
            return lost.failure
        return reply["us"] if reply["failure"] is None else from_plain(reply["failure"], Failure)

    def measure_reference(self, request: ReferenceRequest) -> ReferenceTiming | Failure:
        """The reference's figures; it is built and compiled in a shared turn, and timed alone.

        Loading a compiler takes ten times as long as compiling, and is done before, without a turn.
        """
        began = time.perf_counter()
        with self.measuring_references:
            header = {"kind": "prepare reference", "request": to_plain(request)}
            try:
                executor = self.reference_executor
                if executor is None:
                    with self.executors[0].lock.shared():
                        executor = self.start_reference_executor()
                    if request.compiling != "none":
                        executor.ask({"kind": "load compiler"}, [], _COMPILE_LIMIT_S)
                with executor.lock.shared():
                    reply, _ = executor.ask(header, [], _COMPILE_LIMIT_S)
                if reply["failure"] is None:
                    again = {**header, "kind": "measure reference", "notes": reply["notes"]}
                    with executor.lock.exclusive():
                        reply, _ = executor.ask(again, [], self.limit_s + 8 * request.protocol.budget_s)
            except Lost as lost:
                return lost.failure
        if reply["failure"] is not None:
            return evolve(from_plain(reply["failure"], Failure), outcome=Outcome.UNSUPPORTED)
        return evolve(from_plain(reply["timing"], ReferenceTiming), seconds=time.perf_counter() - began)

    @property
    def measuring_references(self) -> AbstractContextManager[object]:
        """The turn of whoever measures references; may be taken again within."""
        return self._measuring_references

    def start_reference_executor(self) -> Executor:
        """Open the references' executor, in the turn of whoever measures them."""
        self.reference_executor = self._parent.start(self.executors[0].device)
        return self.reference_executor

    def note_turn(self, device: int, busy_until: float, seconds: Mapping[str, float]) -> None:
        """Count what a borrower's turn took, and when it was last alone on a GPU."""
        with self._change:
            self.busy_until[device] = max(self.busy_until[device], busy_until)
            self.seconds.update({kind: self.seconds[kind] + taken for kind, taken in seconds.items()})

    @contextmanager
    def executor(self, subject: str = "") -> Iterator[Executor]:
        """A free executor, if there is a choice the one that had this subject before: it has its reference ready."""
        began = time.perf_counter()
        with self._change:
            self._change.wait_for(lambda: self._free)
            executor = self._known.get(subject, self._free[0])
            executor = executor if executor in self._free else self._free[0]
            self._free.remove(executor)
            if subject:
                self._known[subject] = executor
            self._count_wait(WAITING_FOR_EXECUTOR, time.perf_counter() - began)
        try:
            yield executor
        finally:
            with self._change:
                self._free.append(executor)
                self._change.notify()

    def ask(
        self,
        executor: Executor,
        header: dict[str, Any],
        blobs: list[bytes],
        limit_s: float | None = None,
        turn: Turn = Turn.SHARED,
    ) -> tuple[dict[str, Any], list[bytes]]:
        began = time.perf_counter()
        turns: dict[Turn, Callable[[], AbstractContextManager[None]]] = {
            Turn.NONE: nullcontext,
            Turn.SHARED: executor.lock.shared,
            Turn.ALONE: executor.lock.exclusive,
        }
        with turns[turn]():
            has_turn = time.perf_counter()
            if turn is Turn.ALONE:
                header = {**header, "busy_until": self.busy_until[executor.device]}
            try:
                if not executor.is_up:
                    # a context that opens shows in what others time: 0.3 us, while it does (H200)
                    with executor.lock.shared():
                        executor.open()
                return executor.ask(header, blobs, limit_s or self.limit_s)
            finally:
                if turn is Turn.ALONE:
                    self.busy_until[executor.device] = time.monotonic()
                with self._change:
                    self._count_wait(WAITING_FOR_TURN, has_turn - began)
                    self.seconds[str(header["kind"])] += time.perf_counter() - has_turn

    @property
    def waited_s(self) -> float:
        """Seconds that this thread has waited for an executor or its turn so far: none of its candidate's."""
        return float(getattr(self._waited, "seconds", 0.0))

    def _count_turn(self, seconds: float) -> None:
        with self._change:
            self._count_wait(WAITING_FOR_TURN, seconds)

    def _count_wait(self, kind: str, seconds: float) -> None:
        self.seconds[kind] += seconds
        self._waited.seconds = self.waited_s + seconds

    def binaries(self, plans: Sequence[LaunchPlan], blobs: list[bytes]) -> dict[str, int]:
        found: dict[str, int] = {}
        for sha256 in {kernel.binary for plan in plans for kernel in plan.kernels if kernel.binary is not None}:
            binary = self._get_blob(sha256)
            if binary is not None:
                found[sha256] = len(blobs)
                blobs.append(binary)
        return found


def try_twice(executor: Executor, work: Callable[[], T]) -> T:
    """What the work returns; where it ends a context that an earlier plan may have spoilt, the same in a fresh one.

    What does not end in time is not asked again: that would take the whole limit once more.
    """
    has_served = executor.has_served
    try:
        return work()
    except Lost as lost:
        if not has_served or lost.failure.outcome is Outcome.TIMEOUT:
            raise
    return work()


def choose_number(devices: Sequence[int], num_sharing: int = 1) -> int:
    """How many executors each GPU should have here, where so many processes like this one share it."""
    import torch

    memory = min(int(torch.cuda.get_device_properties(device).total_memory) for device in devices)
    processors = len(os.sched_getaffinity(0)) // len(devices)
    affordable = min(processors // _PROCESSORS_AN_EXECUTOR, memory // EXECUTOR_BYTES) // num_sharing
    return max(1, min(_MOST_EXECUTORS, affordable))


def place(storages: dict[int, bytes], blobs: list[bytes]) -> dict[str, int]:
    numbers = {}
    for index, data in storages.items():
        numbers[str(index)] = len(blobs)
        blobs.append(data)
    return numbers
