"""Worker processes from the side of who asks: forked by need, kept for the next time, and given one candidate each.

A batch and the server (`harness/service/`) verify with them. Python runs one thread at a time, so threads judge three
to six candidates a second however many processors there are. A batch's candidates of one task go to one worker, which
computes the task's reference once; a worker that has nothing left to do takes one from the longest queue, and computes
it once more. A worker that dies costs its candidate another attempt, and a candidate that ends `MAX_ATTEMPTS` of them
is its task's problem, no other candidate's.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import socket
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from ...core.config import TimingConfig, VerifierConfig
from ...core.recipe.extensions import VerifierSpec
from ...core.serialisation import fingerprint
from ...core.task import Task
from ...core.verdict import Verdict
from ..errors import SandboxError, TaskError
from ..gpu.backend import CudaBackend
from ..gpu.lent_executors import EXECUTORS, ExecutorLoan, ExecutorSession, describe_loan
from ..lending import Session, lend
from ..sandbox.fork_server import FORK_SAFE, ForkServer
from ..sandbox.sandbox import Loan, Sandbox
from .memory_budget import BudgetSession, MemoryBudget

MAX_ATTEMPTS = 3
HOST_MEMORY, GPU_MEMORY = "memory", "GPU memory"
_WORKER = f"{__package__}.worker"
# one thread a worker, and none that spins while it waits: there is a worker for each processor
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}


@frozen(kw_only=True)
class WorkerOrder:
    """How a worker is to verify."""

    config: VerifierConfig
    timing: TimingConfig
    loan: Loan
    evidence: Path
    executors: ExecutorLoan | None
    budgets: dict[str, int]
    """Bytes by the names under which the owner is asked for some."""
    num_workers: int
    """So many share what is kept of references."""


@frozen(kw_only=True)
class Question:
    """A candidate to verify; a worker that takes longer than `limit_s` ends itself, unless that is 0.

    `task` is pickled, since a worker remembers tasks by their text: a task, or a function that returns it there.
    """

    task: bytes
    source: str
    spec: VerifierSpec
    limit_s: float = 0.0


@frozen(kw_only=True)
class Broken:
    """A worker's last answer: its sandbox or a GPU does not work, and it ends."""

    message: str


@define(eq=False)
class _Worker:
    """A process and the tasks that it had."""

    connection: Connection
    loan: Loan
    server: ForkServer
    known: set[str] = field(factory=set)

    @property
    def has_ended(self) -> bool:
        """Whether it is gone, of one that has nothing to answer, or about to be: it ends with what forked it."""
        return self.connection.poll() or not self.server.is_up

    def ask(self, question: Question) -> Any:
        """Return the answer; None where the worker has ended."""
        try:
            self.connection.send(question)
            return self.connection.recv()
        except (EOFError, OSError):
            return None


@frozen(kw_only=True)
class Item:
    """A candidate that waits; `key` is its task's fingerprint."""

    number: int
    task: Task
    key: str
    question: Question


class Schedule:
    """What waits, by task; thread-safe. Items may be added until `end`."""

    def __init__(self, items: Sequence[Item] = ()) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[Item]] = {}
        self._is_claimed: set[str] = set()
        self._has_ended = False
        for item in items:
            self.add(item)

    def add(self, item: Item) -> None:
        with self._changed:
            self._waiting.setdefault(item.key, deque()).append(item)
            self._changed.notify()

    def end(self) -> None:
        """Let those who wait for an item go once there is none: no more will be added."""
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def take(self, known: set[str]) -> Item | None:
        """Return an item for a worker that had these tasks: of them, of one that nobody has, or of the longest.

        Waits where there is none and more may be added; returns None once there will be none.
        """
        with self._changed:
            while not (open_keys := [key for key, items in self._waiting.items() if items]):
                if self._has_ended:
                    return None
                self._changed.wait()
            free = [key for key in open_keys if key not in self._is_claimed]
            longest = max(open_keys, key=lambda key: len(self._waiting[key]))
            key = next((key for key in open_keys if key in known), free[0] if free else longest)
            self._is_claimed.add(key)
            item = self._waiting[key].popleft()
        known.add(key)
        return item

    def drop(self) -> None:
        """Forget what has not begun, and end."""
        with self._changed:
            self._waiting.clear()
        self.end()


def _make_item(number: int, task: Task, source: str, spec: VerifierSpec) -> Item:
    question = Question(task=pickle.dumps(task), source=source, spec=spec)
    return Item(number=number, task=task, key=fingerprint(task), question=question)


@define(eq=False)
class WorkerPool:
    """Worker processes for one verifier, whose sandbox, evidence and executors they share; safe to use from threads."""

    _config: VerifierConfig
    _timing: TimingConfig
    _sandbox: Sandbox
    _evidence: Path
    _cuda: CudaBackend | None
    _budgets: Mapping[str, MemoryBudget]
    num_up: int = field(default=0, init=False)
    num_ended: int = field(default=0, init=False)
    """Workers that ended before the pool did."""
    _num_sharing: int = field(default=1, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _idle: list[_Worker] = field(factory=list, init=False)
    _server: ForkServer | None = field(default=None, init=False)
    _is_closed: bool = field(default=False, init=False)

    def close(self) -> None:
        """End all workers; what they are at is lost."""
        with self._lock:
            self._is_closed = True
            server, self._server = self._server, None
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.connection.close()
        if server is not None:
            server.close()

    def start(self, num_workers: int) -> None:
        """Have so many workers wait for candidates; raises SandboxError."""
        self._expect(num_workers)
        for worker in [self._find_worker() for _ in range(num_workers)]:
            self._give_back(worker)

    def _expect(self, num_workers: int) -> None:
        """Start the process that forks workers, which takes seconds, without waiting for it."""
        with self._lock:
            self._num_sharing = max(self._num_sharing, num_workers)
            if self._server is None and not self._is_closed:
                environment = {**os.environ, **FORK_SAFE, **_ENVIRONMENT}
                self._server = ForkServer(_WORKER, environment, "the workers' process", is_logged=False)

    def verify_one(
        self, task: Task | Callable[[], Task], source: str, spec: VerifierSpec, name: str, limit_s: float
    ) -> Verdict:
        """Return the verdict on a candidate; raises TaskError or SandboxError.

        A function that makes the task runs in the worker; `name` is what errors call the task.
        """
        question = Question(task=pickle.dumps(task), source=source, spec=spec, limit_s=limit_s)
        worker, answer = self._ask(self._find_worker(), question, name)
        self._give_back(worker)
        if isinstance(answer, BaseException):
            raise answer
        verdict: Verdict = answer
        return verdict

    def verify(
        self, pairs: Sequence[tuple[Task, str]], spec: VerifierSpec, jobs: int
    ) -> Generator[tuple[int, Verdict | TaskError]]:
        """Yield each pair's number with its verdict or its task's failure, as they are done, `jobs` at once.

        Raises SandboxError where workers or their sandbox do not work. What has not begun when the iteration ends is
        dropped.
        """
        schedule = Schedule([_make_item(number, *pair, spec) for number, pair in enumerate(pairs)])
        schedule.end()
        answers: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._have_done(schedule, answers, min(jobs, len(pairs)))
        try:
            for _ in pairs:
                number, answer = answers.get()
                if isinstance(answer, BaseException) and not isinstance(answer, TaskError):
                    raise answer
                yield number, answer
        finally:
            schedule.drop()

    @contextlib.contextmanager
    def verify_ahead(self, spec: VerifierSpec, jobs: int) -> Iterator[Callable[[Task, str], None]]:
        """Yield what has a candidate of a task verified, `jobs` at once, for its evidence; leaving waits for all.

        An error ends what it comes to, and is met again by who asks for the verdict.
        """
        schedule, seen, numbers = Schedule(), set[tuple[str, str]](), count()

        def put(task: Task, source: str) -> None:
            item = _make_item(next(numbers), task, source, spec)
            if (item.key, source) not in seen:
                seen.add((item.key, source))
                schedule.add(item)

        threads = self._have_done(schedule, queue.SimpleQueue(), jobs)
        try:
            yield put
        except BaseException:
            schedule.drop()
            raise
        schedule.end()
        for thread in threads:
            thread.join()

    def _have_done(
        self, schedule: Schedule, answers: queue.SimpleQueue[tuple[int, Any]], num_workers: int
    ) -> list[threading.Thread]:
        """Start so many threads, each of which has a worker do what waits."""
        self._expect(num_workers)
        threads = [
            threading.Thread(target=self._work, args=(schedule, answers), name="worker", daemon=True)
            for _ in range(num_workers)
        ]
        for thread in threads:
            thread.start()
        return threads

    def _work(self, schedule: Schedule, answers: queue.SimpleQueue[tuple[int, Any]]) -> None:
        """Have one worker after the other do what waits."""
        try:
            worker = self._find_worker()
            while (item := schedule.take(worker.known)) is not None:
                worker, answer = self._ask(worker, item.question, item.task.task_id)
                worker.known.add(item.key)
                answers.put((item.number, answer))
            self._give_back(worker)
        except BaseException as error:
            answers.put((-1, error))

    def _ask(self, worker: _Worker, question: Question, name: str) -> tuple[_Worker, Any]:
        """Return a candidate's answer, and the worker that gave it; another one where the first has died."""
        problem = ""
        for _ in range(MAX_ATTEMPTS):
            answer = worker.ask(question)
            if answer is not None and not isinstance(answer, Broken):
                return worker, answer
            self._drop(worker)
            problem = answer.message if isinstance(answer, Broken) else ""
            if problem:
                self._sandbox.renew(worker.loan)
            worker = self._find_worker()
        if problem:
            self._give_back(worker)
            raise SandboxError(problem)
        return worker, TaskError(f"{name}: {MAX_ATTEMPTS} workers ended at one of its candidates")

    def _find_worker(self) -> _Worker:
        while (worker := self._take_idle()) is not None:
            if not worker.has_ended:
                return worker
            self._drop(worker)
        loan, controls = self._sandbox.lend()
        cuda = self._cuda
        sessions: dict[str, Callable[[], Session]] = {
            name: partial(BudgetSession, budget) for name, budget in self._budgets.items()
        }
        if cuda is not None:
            sessions[EXECUTORS] = partial(ExecutorSession, cuda)
        with lend(sessions) as lent:
            connection, server = self._fork([lent, *controls])
        order = WorkerOrder(
            config=self._config,
            timing=self._timing,
            loan=loan,
            evidence=self._evidence,
            executors=None if cuda is None else describe_loan(cuda),
            budgets={name: budget.num_bytes for name, budget in self._budgets.items()},
            num_workers=self._num_sharing,
        )
        with contextlib.suppress(OSError):  # that it ended shows when it is asked
            connection.send(order)
        with self._lock:
            self.num_up += 1
        return _Worker(connection=connection, loan=loan, server=server)

    def _take_idle(self) -> _Worker | None:
        with self._lock:
            if self._is_closed:
                raise SandboxError("the verifier is closed")
            return self._idle.pop() if self._idle else None

    def _fork(self, sockets: Sequence[socket.socket]) -> tuple[Connection, ForkServer]:
        """Return the connection to a new worker and what forked it: another process where the first has ended."""
        problem = SandboxError("the verifier is closed")
        for _ in range(2):
            self._expect(1)
            server = self._server
            if server is None:
                break
            try:
                ours = server.spawn(b"w", [each.fileno() for each in sockets])[1]
                return Connection(ours.detach()), server
            except SandboxError as error:
                problem = error
            with self._lock:
                if self._server is server:
                    self._server = None
            server.close()
        raise problem

    def _drop(self, worker: _Worker) -> None:
        worker.connection.close()
        with self._lock:
            self.num_up -= 1
            self.num_ended += 1

    def _give_back(self, worker: _Worker) -> None:
        with self._lock:
            if not self._is_closed:
                self._idle.append(worker)
                return
        worker.connection.close()
