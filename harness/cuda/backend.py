"""The judge's side of the executors: requests out, replies in, and what each kind of death means.

One executor a GPU for plans, and one request at a time on each: what is timed must be alone. Who else uses the GPU
takes turns with it (`harness.cuda.turns`): other processes' executors, the oracle, and a second executor of this
process that measures references, so that compiling them holds nobody up. A request that outlives its limit or loses the
context costs its executor's child, whose successor is up before the next request; no other candidate's verdict is
touched by that.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from types import TracebackType
from typing import Any

from attrs import evolve

from ...core.candidate import Failure, ReferenceTiming
from ...core.outcome import Outcome
from ...core.plan import LaunchPlan
from ...core.serialisation import from_plain, to_plain
from ..errors import SandboxError
from ..sandbox import wire
from ..sandbox.protocol import RunReply, RunRequest
from ..sandbox.sandbox import read_run_result
from .protocol import Protocol, ReferenceRequest, ReferenceSource, Timed
from .turns import Turns

_START_TIMEOUT_S = 120.0
_COMPILE_LIMIT_S = 300.0
_MAX_FRAME = 1 << 36
GetBlob = Callable[[str], bytes | None]
WAITING_FOR_EXECUTOR, WAITING_FOR_TURN = "waiting for an executor", "waiting for a turn"
"""Kinds of `CudaBackend.seconds` that are no work."""


class _Lost(Exception):
    """The child ended or was ended; `failure` is what that says of the plan."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Executor:
    """One GPU's executor process; used by one thread at a time."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.name = ""
        self.num_restarts = 0
        self.longest_restart_s = 0.0
        self._control, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the executor)
        command = [sys.executable, "-m", f"{__package__}.executor", "--control", str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                [*command, "--device", str(device)],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                start_new_session=True,
            )
        self._control.settimeout(_START_TIMEOUT_S)
        self._connection: socket.socket | None = None
        self._child = -1
        try:
            self._expect(self._control.recv(1) == b"r")
            self._open()
        except OSError as error:
            self.close()
            raise SandboxError(f"the executor of GPU {device} did not start: {error}") from error

    def _expect(self, fine: bool) -> None:
        if not fine:
            self._log.seek(0)
            lines = self._log.read().decode(errors="replace").strip().splitlines()
            raise SandboxError(f"the executor of GPU {self.device} ended: {lines[-1] if lines else 'it said nothing'}")

    def _open(self) -> None:
        """Fork a child that opens the device."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [b"f"], [theirs.fileno()])
        answer = self._control.recv(10)
        self._expect(bool(answer))
        self._child = int(answer)
        ours.settimeout(_START_TIMEOUT_S)
        try:
            header, _ = wire.read(ours.recv, 1 << 16)
        except (OSError, wire.FrameError):
            header = {}
        self._expect("ready" in header)
        self.name, self.turns = str(header["name"]), Turns(str(header["uuid"]))
        self._connection = ours

    def _drop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def ask(self, header: dict[str, Any], blobs: Sequence[bytes], limit_s: float) -> tuple[dict[str, Any], list[bytes]]:
        """One request's reply; raises _Lost where the plan took the child down, SandboxError where nothing works."""
        if self._connection is None:
            began = time.perf_counter()
            self._open()
            self.num_restarts += 1
            self.longest_restart_s = max(self.longest_restart_s, time.perf_counter() - began)
        connection = self._connection
        assert connection is not None
        connection.settimeout(limit_s)
        try:
            connection.sendall(wire.encode(header, blobs))
            reply, outputs = wire.read(connection.recv, _MAX_FRAME)
        except TimeoutError:
            self._drop()
            failure = Failure(outcome=Outcome.TIMEOUT, message=f"still running on the GPU after {limit_s:g} s")
            raise _Lost(failure) from None
        except (OSError, wire.FrameError) as error:
            self._drop()
            raise _Lost(Failure(outcome=Outcome.CRASHED, message=f"the executor ended: {error}")) from None
        if "fatal" in reply:
            self._drop()
            raise _Lost(from_plain(reply["fatal"], Failure))
        return reply, outputs

    def close(self) -> None:
        """End the process and its child."""
        self._drop()
        self._control.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


class CudaBackend:
    """Executors for some GPUs; thread-safe, a context manager."""

    def __init__(self, get_blob: GetBlob, devices: Iterable[int] = (0,), limit_s: float = 30.0) -> None:
        self._get_blob = get_blob
        self._limit_s = limit_s
        self.executors = [Executor(device) for device in devices]
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """What requests took so far, by kind, and what threads waited for their executor and its turn."""
        self._counting = threading.Lock()
        self._reference_executor: Executor | None = None
        self.measuring_references = threading.RLock()
        self._free: queue.SimpleQueue[Executor] = queue.SimpleQueue()
        for executor in self.executors:
            self._free.put(executor)

    def __enter__(self) -> CudaBackend:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all executors."""
        for executor in (*self.executors, self._reference_executor):
            if executor is not None:
                executor.close()

    def run(self, source: str, requests: Sequence[RunRequest]) -> RunReply:
        """Run plans; the source plays no part, since no candidate's Python is needed."""
        began = time.perf_counter()
        blobs: list[bytes] = []
        plains = [
            {"variant": r.variant.value, "plan": to_plain(r.plan), "storages": _place(r.storages, blobs)}
            for r in requests
        ]
        header = {"kind": "run", "requests": plains, "binaries": self._binaries([r.plan for r in requests], blobs)}
        try:
            reply, outputs = self._ask(header, blobs)
        except _Lost as lost:
            return RunReply(failure=lost.failure, seconds=time.perf_counter() - began)
        results = tuple(read_run_result(plain, outputs) for plain in reply["results"])
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
    ) -> Timed:
        """A plan's trials beside those of its reference, on the values in `storages`, and its results on both."""
        blobs: list[bytes] = []
        header = {
            "kind": "time",
            "plan": to_plain(plan),
            "storages": _place(storages, blobs),
            "others": _place(others, blobs),
            "binaries": self._binaries([plan], blobs),
            "source": to_plain(source) if source is not None else None,
            "protocol": to_plain(protocol),
        }
        limit_s = self._limit_s + (protocol.attempts + 1) * protocol.budget_s
        try:
            try:
                reply, outputs = self._ask(header, blobs, limit_s, alone=True)
            except _Lost:
                # a reference is kept from one request to the next, where an earlier candidate may have spoilt it
                reply, outputs = self._ask(header, blobs, limit_s, alone=True)
        except _Lost as lost:
            return Timed(failure=lost.failure)
        timed = from_plain(reply["timed"], Timed)
        if not reply["results"]:
            return timed
        first, fresh = (read_run_result(plain, outputs) for plain in reply["results"])
        return evolve(timed, first=first, fresh=fresh)

    def compare_protocols(
        self, plan: LaunchPlan, storages: dict[int, bytes], protocol: Protocol, num_repeats: int
    ) -> list[dict[str, list[float]]] | Failure:
        """Measurements of a plan: the trials of each, in microseconds by the way to time it (`harness.cuda.timer`)."""
        blobs: list[bytes] = []
        header = {
            "kind": "compare",
            "plan": to_plain(plan),
            "storages": _place(storages, blobs),
            "binaries": self._binaries([plan], blobs),
            "protocol": to_plain(protocol),
            "num_repeats": num_repeats,
        }
        try:
            reply, _ = self._ask(header, blobs, self._limit_s + 4 * num_repeats * protocol.budget_s, alone=True)
        except _Lost as lost:
            return lost.failure
        if reply["failure"] is not None:
            return from_plain(reply["failure"], Failure)
        measurements: list[dict[str, list[float]]] = reply["us"]
        return measurements

    def measure_reference(self, request: ReferenceRequest) -> ReferenceTiming | Failure:
        """The reference's figures; it is built and compiled without a turn, and timed alone."""
        began = time.perf_counter()
        with self.measuring_references:
            if self._reference_executor is None:
                self._reference_executor = Executor(self.executors[0].device)
            executor = self._reference_executor
            header = {"kind": "prepare reference", "request": to_plain(request)}
            try:
                reply, _ = executor.ask(header, [], _COMPILE_LIMIT_S)
                if reply["failure"] is None:
                    again = {**header, "kind": "measure reference", "notes": reply["notes"]}
                    with executor.turns.exclusive():
                        reply, _ = executor.ask(again, [], self._limit_s + 8 * request.protocol.budget_s)
            except _Lost as lost:
                return lost.failure
        if reply["failure"] is not None:
            return Failure(outcome=Outcome.UNSUPPORTED, message=str(reply["failure"]))
        return evolve(from_plain(reply["timing"], ReferenceTiming), seconds=time.perf_counter() - began)

    def _ask(
        self, header: dict[str, Any], blobs: list[bytes], limit_s: float | None = None, alone: bool = False
    ) -> tuple[dict[str, Any], list[bytes]]:
        marks = [time.perf_counter()]
        executor = self._free.get()
        marks.append(time.perf_counter())
        try:
            with executor.turns.exclusive() if alone else executor.turns.shared():
                marks.append(time.perf_counter())
                return executor.ask(header, blobs, limit_s or self._limit_s)
        finally:
            self._free.put(executor)
            marks.append(time.perf_counter())
            with self._counting:
                for kind, (start, stop) in zip(
                    (WAITING_FOR_EXECUTOR, WAITING_FOR_TURN, str(header["kind"])), pairwise(marks), strict=False
                ):
                    self.seconds[kind] += stop - start

    def _binaries(self, plans: Sequence[LaunchPlan], blobs: list[bytes]) -> dict[str, int]:
        found: dict[str, int] = {}
        for sha256 in {kernel.binary for plan in plans for kernel in plan.kernels if kernel.binary is not None}:
            binary = self._get_blob(sha256)
            if binary is not None:
                found[sha256] = len(blobs)
                blobs.append(binary)
        return found


def _place(storages: dict[int, bytes], blobs: list[bytes]) -> dict[str, int]:
    numbers = {}
    for index, data in storages.items():
        numbers[str(index)] = len(blobs)
        blobs.append(data)
    return numbers
