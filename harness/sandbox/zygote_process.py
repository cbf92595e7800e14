"""Starts zygotes and hands jobs to them: the judge's handle of one, which its owner may lend, and how jobs end.

One process imports torch once and forks the zygotes of a sandbox (`fork_server`). A job is one packet on the zygote's
control socket, so several processes may hand over jobs on the same one. Who borrows a zygote cannot start it anew: that
is its owner's to do.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import threading
from collections.abc import Collection
from typing import Any

from attrs import frozen

from ...core.candidate import Failure
from ...core.config import LimitsConfig
from ...core.outcome import Outcome
from ...core.seeds import derive
from ..errors import SandboxError
from . import wire
from .fork_server import ForkServer
from .zygote import CONFINED, MAX_ANSWER_BYTES

_START_TIMEOUT_S = 120.0
_END_TIMEOUT_S = 5.0
_NEARLY = 0.75
"""Of the limit. The kernel counts seconds by its ticks where it limits them, and precisely where it tells them:
beside other work these may be far less. SIGXCPU is believed as it is; SIGKILL may be for want of memory, too."""
_INHERITED = ("LD_LIBRARY_PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONPATH")
"""All that a child has of the judge's environment, so that it finds no token of the user's there."""


def start_server(seed: int) -> ForkServer:
    """Start the process that forks zygotes, without waiting for its imports."""
    environment = {name: value for name, value in os.environ.items() if name in _INHERITED}
    environment |= {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "PYTHONNOUSERSITE": "1"}
    environment["PYTHONHASHSEED"] = str(derive(seed, "hash") % 2**32)
    environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment |= {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}  # no candidate meets a GPU
    return ForkServer(f"{__package__}.zygote", environment, "the zygotes' process", is_logged=True)


class ZygoteProcess:
    """A running zygote and its control socket."""

    def __init__(self, server: ForkServer, mode: str, target: str, root: str, without: Collection[str]) -> None:
        self.lock = threading.Lock()
        self._server = server
        scratch = os.path.join(root, f"zygote-{mode}-{secrets.token_hex(4)}")
        os.mkdir(scratch, 0o700)
        order = {"mode": mode, "target": target, "scratch": scratch, "without": list(without)}
        self.pid, self.control = server.spawn(json.dumps(order).encode(), kind=socket.SOCK_SEQPACKET)
        self._handle = os.pidfd_open(self.pid)  # its number may be another's once it has ended
        self.control.settimeout(_START_TIMEOUT_S)
        try:
            packet = self.control.recv(1 << 16)
        except OSError:
            packet = b""
        if not packet:
            words = self.last_words()
            self.close()
            raise SandboxError(f"the {mode} zygote did not start: {words}")
        self.protections: dict[str, Any] = json.loads(packet)["ready"]

    def last_words(self) -> str:
        """Return the last line that it, or another zygote of its server's, printed."""
        return self._server.last_words()

    @property
    def is_up(self) -> bool:
        """Return whether the process runs."""
        return self._handle >= 0 and not self._has_ended(0.0)

    def _has_ended(self, limit_s: float) -> bool:
        poll = select.poll()  # `select.select` takes no number beyond 1024
        poll.register(self._handle, select.POLLIN)
        return bool(poll.poll(1000.0 * limit_s))

    def submit(self, order: dict[str, Any], connection: socket.socket) -> None:
        """Hand over a job's socket; raises OSError where the zygote is gone."""
        with self.lock:
            _send(self.control, order, connection)

    def close(self) -> None:
        """End the zygote: the closed control socket tells it to, and a signal does if it will not listen."""
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_RDWR)  # others may have borrowed it
        self.control.close()
        if self._handle < 0:
            return
        if not self._has_ended(_END_TIMEOUT_S):
            self.kill()
        os.close(self._handle)
        self._handle = -1

    def kill(self) -> None:
        """End the process at once, and wait until it has."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        self._has_ended(_END_TIMEOUT_S)


class BorrowedZygote:
    """Another process's zygote."""

    is_up = True
    """Its owner knows; that it has ended shows when a job is handed over."""

    def __init__(self, control: socket.socket) -> None:
        control.settimeout(_START_TIMEOUT_S)
        self.control = control

    def last_words(self) -> str:
        """Return where its words are to be found."""
        return "its owner has its words"

    def submit(self, order: dict[str, Any], connection: socket.socket) -> None:
        """Hand over a job's socket; raises OSError where the zygote is gone."""
        _send(self.control, order, connection)

    def close(self) -> None:
        """Hand over no more jobs; the zygote stays."""
        self.control.close()


def _send(control: socket.socket, order: dict[str, Any], connection: socket.socket) -> None:
    socket.send_fds(control, [json.dumps(order).encode()], [connection.fileno()])


@frozen(kw_only=True)
class Died:
    """How a child ended without a usable answer."""

    failure: Failure
    is_killed: bool = False
    """Whether by a signal that its zygote has not sent."""


@frozen(kw_only=True)
class Job:
    """What a child is asked for, in which zygote, and what it may use."""

    mode: str
    header: dict[str, Any]
    blobs: list[bytes]
    limits: LimitsConfig


def read_end(status: dict[str, Any], answer: bytes, token: bytes, limits: LimitsConfig) -> wire.Answer | Died:
    """Return a child's answer, or how it died; raises ValueError where it ended before it was confined."""
    reason, code = status["killed_for"], int(status["exit"])
    if reason == "judge":
        raise ValueError("the job was given up")
    if not answer.startswith(CONFINED) and not reason:
        raise ValueError(f"a child ended before it was confined (status {code})")
    deaths = {
        "wall": (Outcome.TIMEOUT, f"still running after {limits.wall_s} s"),
        "memory": (Outcome.MEMORY_LIMIT, f"more than {limits.memory_mb} MB"),
        "processes": (Outcome.PROCESS_LIMIT, f"{limits.processes} processes or threads"),
        "disk": (Outcome.OUTPUT_LIMIT, f"files of more than {limits.file_mb} MB"),
        "output": (Outcome.OUTPUT_LIMIT, f"printed more than {limits.output_mb} MB"),
        "answer": (Outcome.OUTPUT_LIMIT, f"results of more than {MAX_ANSWER_BYTES >> 20} MB"),
    }
    if reason:
        outcome, message = deaths[reason]
        return Died(failure=Failure(outcome, message))
    is_over = code == -signal.SIGKILL and float(status["cpu_s"]) > _NEARLY * limits.cpu_s
    if code == -signal.SIGXCPU or is_over:
        return Died(failure=Failure(Outcome.TIMEOUT, f"used {limits.cpu_s} s of CPU time"))
    if code == -signal.SIGSYS:
        return Died(failure=Failure(Outcome.FORBIDDEN_CALL, "ended by SIGSYS"))
    body = memoryview(answer)[len(CONFINED) :]
    if code != 0 or not body:
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
        failure = Failure(Outcome.CRASHED, f"ended {how} before it answered")
        return Died(failure=failure, is_killed=code == -signal.SIGKILL)
    if not secrets.compare_digest(body[: len(token)], token):
        return Died(failure=describe_broken(ValueError("the answer does not carry its token")))
    try:
        return wire.decode(body[len(token) :])
    except wire.FrameError as error:
        return Died(failure=describe_broken(error))


def describe_broken(error: Exception) -> Failure:
    """Return the failure of a child whose answer cannot be read."""
    return Failure(Outcome.BROKEN_PROTOCOL, str(error).splitlines()[0][:300] if str(error) else "")
