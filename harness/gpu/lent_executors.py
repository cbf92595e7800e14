"""Executors of one process that its workers use in turns, so that a GPU has as many contexts however many workers.

The owner chooses who has which executor, opens successors and keeps the counts; a borrower has the executor's own
socket for as long as it has its turn, so that plans and values never pass through the owner. An executor whose borrower
died in its turn is ended, since what its child is at is unknown.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property

import torch
from attrs import define, frozen

from ..errors import SandboxError
from ..lending import Borrower, Reply
from .backend import CudaBackend, GetBlob
from .device.memory import open_window
from .gpu_lock import GpuLock
from .processes import Executor

EXECUTORS = "executors"
"""The session's name."""


@frozen(kw_only=True)
class LentGpu:
    """A GPU as borrowers know it."""

    device: int
    name: str
    uuid: str


@frozen(kw_only=True)
class ExecutorLoan:
    """The GPUs on which a borrower may have turns."""

    gpus: tuple[LentGpu, ...]
    limit_s: float


@frozen(kw_only=True)
class Take:
    """Ask for a free executor, rather the one that had the subject before; or for the references'."""

    subject: str = ""
    of_references: bool = False


@frozen(kw_only=True)
class Open:
    """Ask for a successor of the executor that one has."""


@frozen(kw_only=True)
class Give:
    """Hand it back, and say how it is and what it was busy with."""

    is_up: bool
    has_served: bool
    busy_until: float
    seconds: dict[str, float]


@frozen(kw_only=True)
class Lent:
    """The executor that one has, its number among the owner's (-1: the references').

    The descriptor of its window travels beside it, and its socket where its child is up.
    """

    number: int
    device: int
    child: int
    has_served: bool
    busy_until: float


def describe_loan(backend: CudaBackend) -> ExecutorLoan:
    """Return what a borrower of the backend's executors has to know."""
    first = {executor.device: executor for executor in reversed(backend.executors)}
    gpus = (LentGpu(device=each.device, name=each.name, uuid=each.uuid) for each in first.values())
    return ExecutorLoan(gpus=tuple(sorted(gpus, key=lambda gpu: gpu.device)), limit_s=backend.limit_s)


@define(eq=False)
class _Turn:
    executor: Executor | None
    stack: ExitStack


class ExecutorSession:
    """The owner's side of one borrower; its turns are nested at most one in the other."""

    def __init__(self, backend: CudaBackend) -> None:
        self._backend = backend
        self._turns: list[_Turn] = []

    def answer(self, message: Take | Open | Give) -> Reply:
        """Give a turn, open a successor, or end the turn."""
        match message:
            case Take():
                return self._take(message)
            case Open():
                return self._open()
            case Give():
                self._end(message)
        return None, ()

    def close(self) -> None:
        """End the turns of a borrower who is gone."""
        while self._turns:
            self._end(None)

    def _take(self, wanted: Take) -> Reply:
        stack = ExitStack()
        executor: Executor | None
        if wanted.of_references:
            stack.enter_context(self._backend.measuring_references)
            executor = self._backend.reference_executor
        else:
            executor = stack.enter_context(self._backend.executor(wanted.subject))
        self._turns.append(_Turn(executor, stack))
        return (None, ()) if executor is None else self._describe(executor)

    def _open(self) -> Reply:
        turn = self._turns[-1]
        if turn.executor is None:
            turn.executor = self._backend.start_reference_executor()
        else:
            turn.executor.let_go()  # its borrower has ended the child
            turn.executor.open()
        return self._describe(turn.executor)

    def _describe(self, executor: Executor) -> Reply:
        executors = self._backend.executors
        lent = Lent(
            number=executors.index(executor) if executor in executors else -1,
            device=executor.device,
            child=executor.child,
            has_served=executor.has_served,
            busy_until=self._backend.busy_until[executor.device],
        )
        connection = () if executor.connection is None else (executor.connection.fileno(),)
        return lent, (executor.window_descriptor, *connection)

    def _end(self, given: Give | None) -> None:
        turn = self._turns.pop()
        with turn.stack:
            if turn.executor is None:
                return
            if given is None:
                turn.executor.close()
                return
            turn.executor.has_served = given.has_served
            if not given.is_up:
                turn.executor.let_go()
            self._backend.note_turn(turn.executor.device, given.busy_until, given.seconds)


class BorrowedExecutor(Executor):
    """Another process's executor, for one turn; `windows` are those that are mapped here, by executor."""

    def __init__(self, borrower: Borrower, gpu: LentGpu, windows: dict[int, torch.Tensor]) -> None:
        self.device, self.name, self.uuid = gpu.device, gpu.name, gpu.uuid
        self.lock = GpuLock(gpu.uuid)
        self.has_served = False
        self.restarts_s = []
        self.child = self.window_descriptor = self._number = -1
        self.connection: socket.socket | None = None
        self._borrower = borrower
        self._windows = windows

    @cached_property
    def window(self) -> torch.Tensor:
        """Memory that the child writes and we read."""
        if self._number not in self._windows:
            self._windows[self._number] = open_window(self.window_descriptor)
        return self._windows[self._number]

    def receive(self, lent: Lent, descriptors: list[int]) -> None:
        """Have the turn that was lent."""
        self.let_go()
        self._number, self.child, self.has_served = lent.number, lent.child, lent.has_served
        self.window_descriptor, *connection = descriptors
        if connection:
            self.connection = socket.socket(fileno=connection[0])

    def let_go(self) -> None:
        """Forget the child, and the window's descriptor."""
        super().let_go()
        if self.window_descriptor >= 0:
            os.close(self.window_descriptor)
            self.window_descriptor = -1

    def _open(self) -> None:
        lent, descriptors = self._borrower.ask(EXECUTORS, Open())
        self.receive(lent, descriptors)


class BorrowedBackend(CudaBackend):
    """A backend on another process's executors; for one thread."""

    def __init__(self, get_blob: GetBlob, loan: ExecutorLoan, borrower: Borrower) -> None:
        self._begin(get_blob, loan.limit_s)
        self._borrower = borrower
        self._windows: dict[int, torch.Tensor] = {}
        self._gpus = {gpu.device: gpu for gpu in loan.gpus}
        self.executors: list[Executor] = [BorrowedExecutor(borrower, gpu, self._windows) for gpu in loan.gpus]
        self._has: Executor | None = None
        self._num_nested = 0

    def close(self) -> None:
        """Leave the executors to their owner."""

    @contextmanager
    def executor(self, subject: str = "") -> Iterator[Executor]:
        """A free executor, if there is a choice the one that had this subject before."""
        with self._turn(Take(subject=subject)) as (lent, descriptors):
            assert lent is not None
            executor = BorrowedExecutor(self._borrower, self._gpus[lent.device], self._windows)
            executor.receive(lent, descriptors)
            self.busy_until[lent.device] = lent.busy_until
            self._has = executor
            yield executor

    @property
    def measuring_references(self) -> AbstractContextManager[object]:
        """The turn of whoever measures references, for all that share the executors; may be taken again within."""
        return self._measure_references()

    @contextmanager
    def _measure_references(self) -> Iterator[None]:
        if self._num_nested:
            self._num_nested += 1
            try:
                yield
            finally:
                self._num_nested -= 1
            return
        with self._turn(Take(of_references=True)) as (lent, descriptors):
            self._num_nested = 1
            self.reference_executor = None
            if lent is not None:
                self.reference_executor = BorrowedExecutor(self._borrower, self._gpus[lent.device], self._windows)
                self.reference_executor.receive(lent, descriptors)
            self._has = self.reference_executor
            try:
                yield
            finally:
                self._num_nested = 0

    def start_reference_executor(self) -> Executor:
        """Open the executor of references, in this turn of whoever measures them."""
        first = self.executors[0]
        executor = BorrowedExecutor(self._borrower, self._gpus[first.device], self._windows)
        executor.open()
        self.reference_executor = self._has = executor
        return executor

    @contextmanager
    def _turn(self, wanted: Take) -> Iterator[tuple[Lent | None, list[int]]]:
        lent, descriptors = self._borrower.ask(EXECUTORS, wanted)
        self._has = None
        try:
            yield lent, descriptors
        finally:
            with contextlib.suppress(SandboxError):
                self._borrower.ask(EXECUTORS, self._give())

    def _give(self) -> Give:
        """Let go of the executor, and say how it is."""
        seconds, self.seconds = dict(self.seconds), defaultdict(float)
        executor, self._has = self._has, None
        if executor is None:
            return Give(is_up=False, has_served=False, busy_until=0.0, seconds=seconds)
        given = Give(
            is_up=executor.is_up,
            has_served=executor.has_served,
            busy_until=self.busy_until[executor.device],
            seconds=seconds,
        )
        executor.let_go()
        return given
