"""The judge's side of the executors: requests out, replies in, and what each kind of death means.

One executor a GPU, and one request at a time on each: what is timed must be alone. A request that outlives its limit or
loses the context costs its executor's child, whose successor is up before the next request; no other candidate's
verdict is touched by that.
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
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

from ...core.candidate import Failure
from ...core.outcome import Outcome
from ...core.plan import LaunchPlan
from ...core.serialisation import from_plain, to_plain
from ..errors import SandboxError
from ..sandbox import wire
from ..sandbox.protocol import RunReply, RunRequest
from ..sandbox.sandbox import read_run_result

_START_TIMEOUT_S = 120.0
_MAX_FRAME = 1 << 36
GetBlob = Callable[[str], bytes | None]


class _Lost(Exception):
    """The child ended or was ended; `failure` is what that says of the plan."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Executor:
    """One GPU's executor process; used by one thread at a time."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.num_restarts = 0
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
            self.num_restarts += 1
            self._open()
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
        for executor in self.executors:
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

    def time(
        self, plan: LaunchPlan, storages: dict[int, bytes], num_trials: int, num_warmups: int
    ) -> tuple[float, ...] | Failure:
        """Microseconds of each trial of a plan, or why there are none."""
        blobs: list[bytes] = []
        header = {
            "kind": "time",
            "plan": to_plain(plan),
            "storages": _place(storages, blobs),
            "binaries": self._binaries([plan], blobs),
            "num_trials": num_trials,
            "num_warmups": num_warmups,
        }
        try:
            reply, _ = self._ask(header, blobs)
        except _Lost as lost:
            return lost.failure
        if reply["failure"] is not None:
            return from_plain(reply["failure"], Failure)
        return tuple(float(trial) for trial in reply["trials_us"])

    def _ask(self, header: dict[str, Any], blobs: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        executor = self._free.get()
        try:
            return executor.ask(header, blobs, self._limit_s)
        finally:
            self._free.put(executor)

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
