"""Runs a fork server: a process that has imported what its children need, and forks them in milliseconds.

Zygotes, workers that verify and executors on GPUs are such children, each kind of a server of its own. No candidate's
code runs in a server. Each child has a socket to the owner. The owner's end is the server's, and the server's that of
its children, but for zygotes, which end in order when their owner has.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence

from ..errors import SandboxError
from .confinement import syscalls

_START_TIMEOUT_S = 120.0
_MAX_DESCRIPTORS = 8
_MAX_REQUEST_BYTES = 1 << 13
_READY = b"r"
FORK_SAFE = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
"""Else `torch.cuda.is_available` opens the driver, and no child can use a GPU any more."""
Child = Callable[[socket.socket, bytes, list[int]], None]
"""A child's life: its socket, the request that it was forked for, and the descriptors that came with that."""


class ForkServer:
    """The server from its owner's side; threads take turns with it.

    `module` calls `serve_forks`, with `environment` and nothing else of this process's; `name` is what errors call it.
    What it prints is kept for such an error where `is_logged`, and goes to this process's stderr elsewhere.
    """

    def __init__(self, module: str, environment: Mapping[str, str], name: str, is_logged: bool) -> None:
        self._name = name
        self._is_ready = False
        self._lock = threading.Lock()
        self._log = tempfile.TemporaryFile() if is_logged else None  # noqa: SIM115 (closed with the server)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        output = self._log or 2
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, "--control", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        self._control.settimeout(_START_TIMEOUT_S)

    @property
    def is_up(self) -> bool:
        """Return whether the process runs."""
        return self.process.poll() is None

    @property
    def is_ready(self) -> bool:
        """Return whether imports are known to be done."""
        return self._is_ready

    def wait_until_ready(self) -> None:
        """Wait until imports are done; raises SandboxError."""
        with self._lock:
            self._wait()

    def _wait(self) -> None:
        if self._is_ready:
            return
        try:
            self._is_ready = self._control.recv(1) == _READY
        except OSError as error:
            raise SandboxError(f"{self._name} did not start: {error}") from error
        self.expect(self._is_ready)

    def expect(self, is_fine: bool) -> None:
        """Raise SandboxError with the process's last words where something is not fine."""
        if not is_fine:
            raise SandboxError(f"{self._name} ended: {self.last_words()}")

    def last_words(self) -> str:
        """Return the last line that the process or a child printed."""
        if self._log is None:
            return "its words are above"
        if self._log.closed:
            return "its words are gone"
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def spawn(
        self, request: bytes, descriptors: Sequence[int] = (), kind: socket.SocketKind = socket.SOCK_STREAM
    ) -> tuple[int, socket.socket]:
        """Return a new child's process id, and our end of its socket; raises SandboxError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        with theirs, self._lock:
            self._wait()
            try:
                socket.send_fds(self._control, [request], [theirs.fileno(), *descriptors])
                answer = self._control.recv(16)
            except OSError as error:
                raise SandboxError(f"{self._name} does not answer: {error}") from error
            self.expect(bool(answer))
        return int(answer), ours

    def close(self) -> None:
        """End the process, and with it its children."""
        self.process.kill()
        self.process.wait()
        with self._lock:
            self._control.close()
            if self._log is not None:
                self._log.close()


def serve_forks(be_child: Child) -> None:
    """Say that imports are done, then fork a child for each request until the owner's end of the socket closes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=int, required=True)
    control = socket.socket(fileno=parser.parse_args().control)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    control.send(_READY)
    while True:
        try:
            request, descriptors, _, _ = socket.recv_fds(control, _MAX_REQUEST_BYTES, _MAX_DESCRIPTORS)
        except ConnectionError:
            return
        if not request:
            return
        process = os.fork()
        if process == 0:
            os._exit(_live(be_child, control, request, descriptors))
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(str(process).encode())


def _live(be_child: Child, control: socket.socket, request: bytes, descriptors: list[int]) -> int:
    syscalls.control_process(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    control.close()
    connection, *others = descriptors
    try:
        be_child(socket.socket(fileno=connection), request, others)
    except (EOFError, ConnectionError):
        return 0  # its owner has ended
    except BaseException as error:
        traceback.print_exc()
        # in one line, as the last of a log is what its reader is told
        print(f"{type(error).__name__}: {' '.join(str(error).split())}"[:500], file=sys.stderr, flush=True)
        return 1
    return 0
