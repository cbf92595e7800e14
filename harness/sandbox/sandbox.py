"""Opens a sandbox in the judge's process: sends jobs to zygotes and reads replies (`zygote_process`).

Four kinds of processes, each started by the one before it: the judge, which verifies; a fork server, which has
imported torch and forks zygotes (`fork_server`); a zygote, which forks a child for each job (`zygote`); and the child,
confined, the only one in which candidate code runs.

A `Sandbox` owns the zygotes and one root folder for scratch. It is thread-safe: each call is a job with a socket of
its own, and jobs run side by side. A zygote that dies is started anew once for a job; after that, the sandbox is broken
(`SandboxError`) and no verdict is drawn.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from attrs import asdict, evolve, frozen

from ...core.candidate import Failure, Recording
from ...core.config import LimitsConfig
from ...core.outcome import Outcome
from ...core.run import RunReply, RunRequest
from ...core.serialisation import from_plain, to_plain
from ..errors import SandboxError, UsageError
from . import wire
from .confinement import watch
from .confinement.confinement import Capability, Protections, describe_protections
from .fork_server import ForkServer
from .recording.target import parse_target
from .wire import (
    Answer,
    Depth,
    Recompiled,
    RecompileReply,
    RecompileRequest,
    RecordReply,
    RecordRequest,
    TraceReply,
    read_run_result,
)
from .zygote import STRETCH
from .zygote_process import (
    BorrowedZygote,
    Died,
    Job,
    ZygoteProcess,
    describe_broken,
    read_end,
    start_server,
)

_GRACE_S = 30.0
_LENT = ("compile", "interpret")
_WAITS_FOR_MEMORY_S = (1.0, 4.0, 10.0)
Reply = TypeVar("Reply", RecordReply, RecompileReply, RunReply, TraceReply)


@frozen(kw_only=True)
class Loan:
    """A sandbox's part that another process needs to run jobs in it, beside its zygotes' sockets."""

    limits: LimitsConfig
    target: str
    root: str
    generation: int
    """How often the owner has had to start its zygotes anew."""


class Sandbox:
    """Runs candidates' code in confined children; a context manager.

    `without` names protections to do without ("namespaces", "landlock", "seccomp"), as on machines that do not grant
    them; for tests of that fallback. What Python leaves to chance in a child comes from `seed`.
    """

    def __init__(
        self,
        limits: LimitsConfig | None = None,
        target: str = "sm_90",
        *,
        without: Collection[str] = (),
        seed: int = 0,
        _root: str | None = None,
    ) -> None:
        self.limits = limits or LimitsConfig()
        try:
            self.target = parse_target(target).name
        except ValueError as error:
            raise UsageError(f"verifier.target: {error}") from None
        self._without = tuple(without)
        self._seed = seed
        self._lock = threading.Lock()
        self._starting = {mode: threading.Lock() for mode in ("compile", "interpret", "trace")}
        self._zygotes: dict[str, ZygoteProcess | BorrowedZygote] = {}
        self._server: ForkServer | None = None
        self._closed = False
        self._starter: threading.Thread | None = None
        self._generation = 0
        self._is_borrowed = _root is not None
        self._root, self._root_lock = _make_root() if _root is None else (_root, -1)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the zygotes and everything they started, and remove the scratch root."""
        with self._lock:
            self._closed = True
            server, self._server = self._server, None
        if server is not None and not server.is_ready:
            server.close()  # nobody waits for it any more
        if self._starter is not None:
            self._starter.join()
        with self._lock:
            zygotes, self._zygotes = list(self._zygotes.values()), {}
        for zygote in zygotes:
            zygote.close()
        if server is not None:
            server.close()
        if not self._is_borrowed:
            shutil.rmtree(self._root, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.close(self._root_lock)
            self._root_lock = -1

    def lend(self) -> tuple[Loan, list[socket.socket]]:
        """Return the loan and the sockets for `borrow` in another process; whoever closes the sandbox ends it there."""
        self.start()
        controls = [self._zygote(mode).control for mode in _LENT]
        return Loan(limits=self.limits, target=self.target, root=self._root, generation=self._generation), controls

    @classmethod
    def borrow(cls, loan: Loan, controls: Sequence[socket.socket]) -> Sandbox:
        """Return a sandbox that runs jobs in another process's zygotes, and starts none: broken ones are an error."""
        sandbox = cls(loan.limits, loan.target, _root=loan.root)
        sandbox._zygotes.update({mode: BorrowedZygote(each) for mode, each in zip(_LENT, controls, strict=True)})
        return sandbox

    def renew(self, loan: Loan) -> None:
        """Start zygotes anew that a borrower found broken, unless that was done since the loan."""
        with self._lock:
            if loan.generation != self._generation:
                return
            self._generation += 1
            zygotes, self._zygotes = list(self._zygotes.values()), {}
        for zygote in zygotes:
            zygote.close()

    def start(self, *modes: str) -> None:
        """Start zygotes ahead of need ("compile", "interpret", "trace"; none named: the first two), side by side."""
        wanted = modes or ("compile", "interpret")
        with ThreadPoolExecutor(len(wanted)) as pool:
            list(pool.map(self._zygote, wanted))

    def start_soon(self) -> None:
        """Start the zygotes in a thread, while the caller imports torch; what fails is told at first use."""

        def start() -> None:
            with contextlib.suppress(SandboxError):
                self.start()

        with self._lock:
            if self._starter is None and not self._is_borrowed:
                self._starter = threading.Thread(target=start, name="start zygotes")
                self._starter.start()

    def record(self, source: str, requests: Sequence[RecordRequest], depth: Depth = Depth.CODE) -> RecordReply:
        """Record the candidate's forward pass once for each request, in one child, up to a decisive failure.

        Compiled kernels have code that a GPU can load at `Depth.CODE` alone.
        """

        def read(header: dict[str, Any], blobs: list[bytes]) -> RecordReply:
            recordings = tuple(from_plain(plain, Recording) for plain in list(header["recordings"]))
            stopped = 0 < len(recordings) <= len(requests) and requests[len(recordings) - 1].decisive
            if len(recordings) != len(requests) and not (stopped and recordings[-1].failure is not None):
                raise ValueError("not as many recordings as requests")
            return RecordReply(recordings=recordings, blobs=_by_hash(blobs))

        plains = [to_plain(request) for request in requests]
        return self._ask(RecordReply, "compile", {"source": source, "requests": plains, "depth": depth}, read)

    def recompile(
        self,
        source: str,
        requests: Sequence[RecompileRequest],
        depth: Depth = Depth.CODE,
        compiled: Sequence[bytes] = (),
    ) -> RecompileReply:
        """Compile plans' launches from the source's text, in one child that runs no host code, as they were recorded.

        `compiled` is what earlier such children have made, of any source.
        """

        def read(header: dict[str, Any], blobs: list[bytes]) -> RecompileReply:
            made = tuple(from_plain(plain, Recompiled) for plain in list(header["made"]))
            if len(made) != len(requests):
                raise ValueError("not as many answers as requests")
            at = int(header["num_codes"])
            return RecompileReply(made=made, blobs=_by_hash(blobs[:at]), compiled=tuple(blobs[at:]))

        plains = [to_plain(request) for request in requests]
        return self._ask(RecompileReply, "compile", {"source": source, "plans": plains, "depth": depth}, read, compiled)

    def run(self, source: str, requests: Sequence[RunRequest], patience: int = 1) -> RunReply:
        """Execute plans under Triton's interpreter, in one child, in order, in `patience` times the limits' seconds."""
        blobs: list[bytes] = []
        numbers: dict[int, int] = {}  # what several requests share travels once

        def number_of(data: bytes) -> int:
            if id(data) not in numbers:
                numbers[id(data)] = len(blobs)
                blobs.append(data)
            return numbers[id(data)]

        def read(header: dict[str, Any], answers: list[bytes]) -> RunReply:
            results = tuple(read_run_result(plain, answers) for plain in list(header["results"]))
            if len(results) != len(requests):
                raise ValueError("not as many results as requests")
            return RunReply(results=results)

        plains = [
            to_plain(evolve(request, storages={}))
            | {"storages": {str(index): number_of(data) for index, data in request.storages.items()}}
            for request in requests
        ]
        return self._ask(RunReply, "interpret", {"source": source, "requests": plains}, read, blobs, patience)

    def trace(self, source: str) -> TraceReply:
        """Hash the operation graph of a program in KernelBench's form, in a child that meets nothing else."""
        return self._ask(TraceReply, "trace", {"source": source}, lambda header, _: from_plain(header, TraceReply))

    def _ask(
        self,
        kind: type[Reply],
        mode: str,
        header: dict[str, Any],
        read: Callable[[dict[str, Any], list[bytes]], Reply],
        blobs: Sequence[bytes] = (),
        patience: int = 1,
    ) -> Reply:
        """Return a job's answer as `read` structures it, or a reply with the failure."""
        began = time.perf_counter()
        limits = evolve(self.limits, cpu_s=patience * self.limits.cpu_s, wall_s=patience * self.limits.wall_s)
        answer = self._answer(Job(mode=mode, header=header, blobs=list(blobs), limits=limits))
        if isinstance(answer, Died):
            reply = kind(failure=answer.failure)
        else:
            try:
                reply = read(*answer)
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                reply = kind(failure=describe_broken(error))
        return evolve(reply, seconds=time.perf_counter() - began)

    def capabilities(self) -> tuple[Capability, ...]:
        """Return the contract's protections, and whether each is active on this machine."""
        zygote = self._zygote("compile")
        assert isinstance(zygote, ZygoteProcess)
        return describe_protections(Protections(**zygote.protections))

    def _zygote(self, mode: str) -> ZygoteProcess | BorrowedZygote:
        with self._starting[mode]:
            if self._closed:
                raise SandboxError("the sandbox is closed")
            zygote = self._zygotes.get(mode)
            if zygote is None or not zygote.is_up:
                if zygote is not None:
                    zygote.close()
                self._zygotes[mode] = zygote = ZygoteProcess(
                    self._find_server(), mode, self.target, self._root, self._without
                )
            return zygote

    def _find_server(self) -> ForkServer:
        """Return the process that forks zygotes, another one where the first has ended."""
        with self._lock:
            if self._closed:
                raise SandboxError("the sandbox is closed")
            if self._server is None or not self._server.is_up:
                if self._server is not None:
                    self._server.close()
                self._server = start_server(self._seed)
            return self._server

    def _answer(self, job: Job) -> Answer | Died:
        """Return a job's answer; one that lacked memory runs again, with no other such job beside it."""
        found, is_short = self._watched(job)
        if not is_short:
            return found
        with self._one_by_one():
            for wait_s in _WAITS_FOR_MEMORY_S:
                time.sleep(wait_s)
                found, is_short = self._watched(job)
                if not is_short:
                    return found
        message = f"the machine had too little memory for it, {len(_WAITS_FOR_MEMORY_S) + 1} times"
        return Died(failure=Failure(Outcome.MEMORY_LIMIT, message))

    @contextlib.contextmanager
    def _one_by_one(self) -> Iterator[None]:
        """Hold a lock among all threads and processes that use these zygotes."""
        with open(os.path.join(self._root, "one-by-one"), "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _watched(self, job: Job) -> tuple[Answer | Died, bool]:
        """Return a job's answer, and whether it died while the kernel ended processes for want of memory."""
        known = watch.count_kills()
        found = self._attempt(job)
        return found, isinstance(found, Died) and found.is_killed and watch.count_kills() > known

    def _attempt(self, job: Job) -> Answer | Died:
        for attempt in (1, 2):
            zygote = self._zygote(job.mode)
            scratch = os.path.join(self._root, f"job-{secrets.token_hex(8)}")
            token = secrets.token_bytes(32)
            ours, theirs = socket.socketpair()
            try:
                order = {"limits": asdict(job.limits), "scratch": scratch, "token": token.hex()}
                with theirs:
                    zygote.submit(order, theirs)
                ours.settimeout(STRETCH * job.limits.wall_s + _GRACE_S)
                wire.send(ours, job.header, job.blobs)
                status, (answer,) = wire.read(ours.recv, 1 << 32)
                return read_end(status, answer, token, job.limits)
            except (OSError, ValueError) as error:
                if attempt == 2 or self._closed or self._is_borrowed:
                    raise SandboxError(f"the {job.mode} zygote is broken: {error}; {zygote.last_words()}") from error
                zygote.close()
                shutil.rmtree(scratch, ignore_errors=True)
            finally:
                ours.close()
        raise AssertionError("unreachable")


@contextlib.contextmanager
def open_early(limits: LimitsConfig, target: str, seed: int, is_needed: bool) -> Iterator[Sandbox]:
    """Open a sandbox whose zygotes start at once, if it is known to be needed."""
    with Sandbox(limits, target, seed=seed) as sandbox:
        if is_needed:
            sandbox.start_soon()
        yield sandbox


def _make_root() -> tuple[str, int]:
    """Make a scratch root, locked while this process lives, after removing those whose owner is gone."""
    parent = os.path.join(tempfile.gettempdir(), f"tritonrl-{os.geteuid()}")
    os.makedirs(parent, mode=0o700, exist_ok=True)
    if os.stat(parent).st_uid != os.geteuid():
        raise SandboxError(f"{parent} belongs to another user")
    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)
    while True:
        root = tempfile.mkdtemp(dir=parent)
        descriptor = os.open(root, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.path.isdir(root):  # another process may take a root for stale between its making and its locking
            return root, descriptor
        os.close(descriptor)


def _by_hash(blobs: Sequence[bytes]) -> dict[str, bytes]:
    return {hashlib.sha256(blob).hexdigest(): blob for blob in blobs}
