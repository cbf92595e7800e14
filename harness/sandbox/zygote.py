"""Forks one confined child for each job, and watches it: the main program of a zygote, a process with all imports made.

Importing torch and triton takes seconds and forking milliseconds, so zygotes stay alive for as long as the judge does:
one compiles, one interprets. Triton decides at import which, so they are forked before that by a process that has
imported torch and knows nothing else (`fork_server`). A zygote runs no candidate code. It is the first process of its
own PID namespace, so its end ends every child; and it ends when the judge's end of the control socket closes.

A job arrives as one packet on the control socket: JSON (limits, scratch folder, answer token) and the descriptor of a
socket. The child reads its request from that socket; the zygote writes the reply to it: how the child ended, and the
bytes that it answered. What a status means is the judge's decision (`sandbox`).
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import random
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
from typing import Any

from attrs import asdict, define, field

from ...core.config import LimitsConfig
from ..torch_start import import_torch
from . import wire
from .confinement import confinement, syscalls, watch
from .confinement.confinement import Protections
from .fork_server import serve_forks

WATCH_INTERVAL_S = 0.05
MAX_ANSWER_BYTES = 256 << 20
STRETCH = 4
"""A job lasts at most so many times its limit of wall time, however long it waits for a processor."""
QUIET_S = 5.0
"""Longer than one candidate takes, start included: gathering is worth less than what it holds up there."""
JOBS_WORTH_GATHERING = 40
"""So many jobs from huge pages save what moving the memory there takes: some 10 ms of each, against 0.2 to 0.4 s."""
SHADOWED = 8
"""Addresses over memory of interpreting children, which run no host code: each element, of one byte at least, has some
thirty more for who accessed it when, and a sample of programs touches few of them."""
CONFINED = b"C"
"""First byte of an answer: from here on, what goes wrong is the candidate's doing and not the sandbox's."""


@define(eq=False)
class _Job:
    """A running child."""

    connection: socket.socket
    limits: LimitsConfig
    scratch: str
    pid: int
    process: int
    answer_pipe: int
    output_pipe: int
    started: float
    answer: bytearray = field(factory=bytearray)
    num_output_bytes: int = 0
    killed_for: str = ""


class Zygote:
    """Accepts jobs, watches children and replies, in one loop."""

    def __init__(
        self, control: socket.socket, protections: Protections, perform: wire.Perform, times_memory: int = 1
    ) -> None:
        self.control = control
        self.protections = protections
        self.perform = perform
        self.times_memory = times_memory
        self.jobs: set[_Job] = set()
        self.num_jobs = 0
        self.is_gathered = False
        self.own_bytes = watch.resident_bytes("self")
        self.selector = selectors.DefaultSelector()
        self.selector.register(control, selectors.EVENT_READ, self._accept)
        self.own_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY) if protections.pid_namespace else -1

    def serve(self) -> None:
        """Run until the judge's end of the control socket closes; then kill every child and remove its scratch."""
        try:
            while True:
                is_quiet = not self._take_events()
                self._watch()
                if not self.is_gathered and not self.jobs and (is_quiet or self.num_jobs >= JOBS_WORTH_GATHERING):
                    self._gather()
        except EOFError:
            pass
        finally:
            for job in list(self.jobs):
                self._kill(job, "judge")
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(job.pid, 0)
                shutil.rmtree(job.scratch, ignore_errors=True)
            self.jobs.clear()
            self._end_orphans()

    def _take_events(self) -> int:
        """Do what is to be done now, or next; how many things that were."""
        # what is done last holds a job with its answer: not beyond this function
        timeout = WATCH_INTERVAL_S if self.jobs else None if self.is_gathered else QUIET_S
        events = self.selector.select(timeout)
        for key, _ in events:
            key.data()
        return len(events)

    def _accept(self) -> None:
        packet, descriptors, _, _ = socket.recv_fds(self.control, 1 << 16, 1)
        if not packet:
            raise EOFError
        order = json.loads(packet)
        with socket.socket(fileno=descriptors[0]) as received:
            connection = received.dup()
        limits = LimitsConfig(**order["limits"])
        os.mkdir(order["scratch"], 0o700)  # made here, so that a judge that dies leaves none that nobody knows of
        answer_read, answer_write = os.pipe2(os.O_CLOEXEC)
        output_read, output_write = os.pipe2(os.O_CLOEXEC)
        pid = self._fork()
        if pid == 0:
            status = 1
            try:
                os.close(output_read)
                os.close(answer_read)
                self._be_child(connection, limits, order, answer_write, output_write)
                status = 0
            except BaseException as error:
                print(f"{type(error).__name__}: {error}"[:500], file=sys.stderr, flush=True)
            finally:
                os._exit(status)
        os.close(answer_write)
        os.close(output_write)
        job = _Job(
            connection=connection,
            limits=limits,
            scratch=order["scratch"],
            pid=pid,
            process=os.pidfd_open(pid),
            answer_pipe=answer_read,
            output_pipe=output_read,
            started=time.monotonic(),
        )
        for pipe in (answer_read, output_read):
            os.set_blocking(pipe, False)
        self.jobs.add(job)
        self.num_jobs += 1
        self.selector.register(job.process, selectors.EVENT_READ, lambda: self._finish(job))
        self.selector.register(answer_read, selectors.EVENT_READ, lambda: self._read_answer(job))
        self.selector.register(output_read, selectors.EVENT_READ, lambda: self._read_output(job))

    def _fork(self) -> int:
        if not self.protections.pid_namespace:
            return os.fork()
        # a process may enter a new namespace for its children only while its children's is its own
        syscalls.join_namespace(self.own_namespace, syscalls.CLONE_NEWPID)
        syscalls.unshare(syscalls.CLONE_NEWPID)
        return os.fork()

    def _be_child(
        self, connection: socket.socket, limits: LimitsConfig, order: dict[str, Any], answer: int, output: int
    ) -> None:
        started = time.perf_counter()
        watch.offer_first()
        request, blobs = wire.read(connection.recv, 1 << 34)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (output, 1), (output, 2)):
            os.dup2(source, target, inheritable=True)
        # not at a number that a candidate's code would guess, and away from those that closing others frees
        answer = fcntl.fcntl(answer, fcntl.F_DUPFD_CLOEXEC, random.SystemRandom().randrange(200, 900))
        os.closerange(3, answer)
        os.closerange(answer + 1, 1024)
        connection.detach()
        confinement.confine(limits, self.protections, order["scratch"], self.times_memory)
        os.write(answer, CONFINED)
        for name in ("HOME", "TMPDIR", "TRITON_HOME", "TRITON_CACHE_DIR"):
            os.environ[name] = order["scratch"]
        tempfile.tempdir = None  # forget the zygote's
        own_pid = os.getpid()
        header, results = self.perform(request, blobs, order["scratch"])
        if os.getpid() != own_pid:
            os._exit(1)  # a fork of the candidate's that came back here: one process answers
        header["seconds"] = time.perf_counter() - started
        for data in (bytes.fromhex(order["token"]), wire.encode(header, results)):
            position = 0
            while position < len(data):
                position += os.write(answer, memoryview(data)[position : position + (1 << 20)])

    def _read_answer(self, job: _Job) -> None:
        while piece := self._read(job.answer_pipe):
            job.answer += piece
            if len(job.answer) > MAX_ANSWER_BYTES:
                job.answer.clear()
                self._kill(job, "answer")

    def _read_output(self, job: _Job) -> None:
        while piece := self._read(job.output_pipe):
            job.num_output_bytes += len(piece)
            if job.num_output_bytes > job.limits.output_mb << 20:
                self._kill(job, "output")
                return

    def _read(self, pipe: int) -> bytes:
        try:
            piece = os.read(pipe, 1 << 18)
        except BlockingIOError:
            return b""
        if not piece:
            with contextlib.suppress(KeyError):
                self.selector.unregister(pipe)
        return piece

    def _watch(self) -> None:
        if not self.jobs:
            return
        now = time.monotonic()
        families = watch.families({job.pid for job in self.jobs}) if self.protections.own_proc else {}
        for job in list(self.jobs):
            members = families.get(job.pid, [])
            passed = now - job.started
            # what other processes of the machine take from a job is no fault of its candidate
            if passed > job.limits.wall_s and (
                passed - watch.waited_s(job.pid) > job.limits.wall_s or passed > STRETCH * job.limits.wall_s
            ):
                self._kill(job, "wall")
            elif sum(member.threads for member in members) > job.limits.processes - 2:
                self._kill(job, "processes")
            elif sum(max(0, member.num_bytes - self.own_bytes) for member in members) > job.limits.memory_mb << 20:
                # a fork shares the zygote's pages, and counts as resident in each
                self._kill(job, "memory")
            elif not self.protections.user_namespace and watch.exceeds_on_disk(
                job.scratch, [member.pid for member in members], job.limits.file_mb << 20
            ):
                self._kill(job, "disk")
            elif _is_closed(job.connection):
                self._kill(job, "judge")

    def _gather(self) -> None:
        """Fork from huge pages from now on: in a quiet moment, or once it pays, and while no job has to be watched."""
        before = watch.resident_bytes("self")
        syscalls.gather_into_huge_pages()
        # what else came since the start may be a job's doing, and is no later job's to have
        self.own_bytes += max(0, watch.resident_bytes("self") - before)
        self.is_gathered = True

    def _kill(self, job: _Job, reason: str) -> None:
        job.killed_for = job.killed_for or reason
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(job.process, signal.SIGKILL)
        if not self.protections.pid_namespace:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            self._end_user(job)

    def _end_user(self, job: _Job) -> None:
        if not self.protections.user_namespace and os.geteuid() == 0:
            watch.end_user(confinement.job_uid(job.pid))

    def _end_orphans(self) -> None:
        """Kill what ended jobs left behind where no PID namespace does; their subreaper is this process."""
        if not self.protections.pid_namespace:
            watch.end_descendants({job.pid for job in self.jobs})

    def _finish(self, job: _Job) -> None:
        _, status, usage = os.wait4(job.pid, 0)
        self._read_answer(job)
        self._read_output(job)
        for descriptor in (job.process, job.answer_pipe, job.output_pipe):
            with contextlib.suppress(KeyError):
                self.selector.unregister(descriptor)
            os.close(descriptor)
        self.jobs.discard(job)
        if not self.protections.pid_namespace and watch.has_other_children({job.pid for job in self.jobs}):
            self._end_user(job)
            self._end_orphans()
        shutil.rmtree(job.scratch, ignore_errors=True)
        reply = {
            "exit": os.waitstatus_to_exitcode(status),
            "killed_for": job.killed_for,
            "cpu_s": usage.ru_utime + usage.ru_stime,
        }
        with job.connection as connection, contextlib.suppress(OSError):
            connection.sendall(wire.encode(reply, [job.answer]))


def _is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def main() -> None:
    """Import what all zygotes do, then fork one for each request."""
    import_torch(is_own=True)
    gc.collect()
    gc.freeze()
    serve_forks(_be_zygote)


def _be_zygote(control: socket.socket, request: bytes, _: list[int]) -> None:
    """Isolate, import, warm up, report readiness, serve."""
    order = json.loads(request)
    syscalls.control_process(syscalls.PR_SET_PDEATHSIG, 0)  # it ends in order, with the control socket
    protections = confinement.isolate_zygote(order["without"])
    if protections.pid_namespace:
        pid = os.fork()
        if pid:
            control.close()
            os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xFF)
        with contextlib.suppress(OSError):
            syscalls.control_process(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        syscalls.control_process(syscalls.PR_SET_CHILD_SUBREAPER, 1)  # what a dead job leaves comes here
    protections = confinement.complete(protections, order["without"])
    for name in ("HOME", "TMPDIR", "TRITON_HOME", "TRITON_CACHE_DIR"):
        os.environ[name] = order["scratch"]
    tempfile.tempdir = None  # forget the server's
    perform = _prepare(order["mode"], order["target"], order["scratch"])
    sys.dont_write_bytecode = True  # no child leaves any
    syscalls.fill_holes()
    gc.collect()
    gc.freeze()
    control.send(json.dumps({"ready": asdict(protections)}).encode())
    Zygote(control, protections, perform, SHADOWED if order["mode"] == "interpret" else 1).serve()


def _prepare(mode: str, target: str, scratch: str) -> wire.Perform:
    if mode == "compile":
        from .recording import recorder

        return recorder.prepare(target, scratch)
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
    if mode == "trace":
        from . import tracer

        return tracer.prepare()
    from .interpreter import interpreter

    return interpreter.prepare(scratch)


if __name__ == "__main__":
    main()
