"""The executors' processes as the judge sees them: one parent that has imported what they need, and its children.

The parent never touches a device. A child opens one and serves one thread at a time; when it dies, its successor costs
a fork and a context's start, not imports.

Memory that is short need not be a plan's doing: executors share their GPU with one another, and what the others hold
says nothing about it. So what would fit into an executor's part is asked once more (`with_memory_retry`).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from ...core.candidate import Failure
from ...core.outcome import Outcome
from ...core.plan import LaunchPlan
from ...core.serialisation import from_plain
from ..errors import SandboxError
from ..sandbox import wire
from ..sandbox.fork_server import FORK_SAFE, ForkServer
from .device.memory import make_window, open_window
from .gpu_lock import GpuLock

if TYPE_CHECKING:
    import torch

_START_TIMEOUT_S = 120.0
_END_TIMEOUT_S = 10.0
_MAX_FRAME = 1 << 36
EXECUTOR_BYTES = 16 << 30
"""An executor's part of a GPU's memory: kept references, copies of a plan, graphs."""
T = TypeVar("T")
_ENVIRONMENT = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
"""An executor does one thing after the other; with the driver's eight queues a context takes twice as long to open."""


class Lost(Exception):
    """The child ended or was ended; `failure` is what that says of the plan."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Parent(ForkServer):
    """The process that forks executors; it never touches a device."""

    def __init__(self) -> None:
        environment = {**os.environ, **FORK_SAFE, **_ENVIRONMENT}
        super().__init__(f"{__package__}.executor", environment, "an executor", is_logged=True)
        try:
            self.wait_until_ready()
        except SandboxError:
            self.close()
            raise

    def fork(self, device: int, window: int) -> tuple[int, socket.socket]:
        """A child that opens the device, and the socket on which it serves; `window` is memory of both."""
        return self.spawn(bytes([device]), [window])

    def start(self, device: int) -> Executor:
        return Executor(self, device)


class Executor:
    """One child on one GPU; used by one thread at a time."""

    def __init__(self, parent: Parent, device: int) -> None:
        self.device = device
        self.name = self.uuid = ""
        self.has_served = False
        """Whether plans have run in the child's context, which may have spoilt it for others."""
        self.restarts_s: list[float] = []
        """How long each successor took to be up."""
        self._parent = parent
        self.connection: socket.socket | None = None
        self.child = -1
        self.window_descriptor = make_window()
        self._open()

    @cached_property
    def window(self) -> torch.Tensor:
        """Memory that the child writes and we read: results of large runs, by the piece."""
        return open_window(self.window_descriptor)

    def _open(self) -> None:
        self.child, connection = self._parent.fork(self.device, self.window_descriptor)
        connection.settimeout(_START_TIMEOUT_S)
        try:
            header, _ = wire.read(connection.recv, 1 << 16)
        except (OSError, wire.FrameError):
            header = {}
        self._parent.expect("uuid" in header)
        if not self.name:
            # once: a successor may come within a turn
            self.name, self.uuid = str(header["name"]), str(header["uuid"])
            self.lock = GpuLock(self.uuid)
        self.connection = connection

    @property
    def is_up(self) -> bool:
        """Whether there is a child; if not, the next request opens one."""
        return self.connection is not None

    def open(self) -> None:
        """Have a child, a successor where the last one ended."""
        if self.connection is None:
            began = time.perf_counter()
            self._open()
            self.restarts_s.append(time.perf_counter() - began)

    def close(self) -> None:
        if self.connection is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child, signal.SIGKILL)
        self.let_go()

    def let_go(self) -> None:
        """Forget the child, which ends where nobody else has a connection to it."""
        if self.connection is not None:
            self.connection.close()
        self.connection = None
        self.has_served = False

    def end(self) -> None:
        """End the child, and wait until what it held is free."""
        if self.connection is None:
            return
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(self.child)
            try:
                self.close()
                select.select([handle], [], [], _END_TIMEOUT_S)
            finally:
                os.close(handle)
        self.close()

    def ask(self, header: dict[str, Any], blobs: Sequence[bytes], limit_s: float) -> tuple[dict[str, Any], list[bytes]]:
        """One request's reply; raises Lost where the plan took the child down, SandboxError where nothing works."""
        self.open()
        connection = self.connection
        assert connection is not None
        connection.settimeout(limit_s)
        try:
            wire.send(connection, header, blobs)
            reply, outputs = wire.read(connection.recv, _MAX_FRAME)
        except TimeoutError:
            self.close()
            failure = Failure(Outcome.TIMEOUT, f"still running on the GPU after {limit_s:g} s")
            raise Lost(failure) from None
        except (OSError, wire.FrameError) as error:
            self.close()
            raise Lost(Failure(Outcome.CRASHED, f"the executor ended: {error}")) from None
        if "fatal" in reply:
            self.close()
            raise Lost(from_plain(reply["fatal"], Failure))
        self.has_served |= header["kind"] != "warm up"
        if reply.get("ends"):
            self.close()
        return reply, outputs


def needed_bytes(plan: LaunchPlan) -> int:
    """What the plan's buffers take, with what they are filled from and compared with."""
    from .device.memory import num_bytes

    return 2 * sum(num_bytes(buffer) for buffer in plan.buffers)


def with_memory_retry(
    executor: Executor,
    plans: Sequence[LaunchPlan],
    work: Callable[[], T],
    failures_of: Callable[[T], Iterable[Failure | None]],
    count_wait: Callable[[float], None],
) -> T:
    """What the work returns; where memory was too short for plans that are not large, the same with the GPU alone.

    Seconds until it is alone go to `count_wait`.
    """
    found = work()
    is_short = any(failure and failure.outcome is Outcome.MEMORY_LIMIT for failure in failures_of(found))
    if not is_short or max(map(needed_bytes, plans), default=0) > EXECUTOR_BYTES:
        return found
    began = time.perf_counter()
    with executor.lock.exclusive():
        executor.end()
        count_wait(time.perf_counter() - began)
        return work()
