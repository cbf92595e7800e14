"""The zygotes' processes as the judge sees them: started by the process that owns them, and lent to others.

A job is one packet on the zygote's control socket, so several processes may hand over jobs on the same one. Who
borrows a zygote cannot start it anew: that is its owner's to do.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Collection
from typing import Any

from ...core.seeds import derive
from ..errors import SandboxError

_START_TIMEOUT_S = 120.0
_INHERITED = ("LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH")
"""All that a child has of the judge's environment, so that it finds no token of the user's there."""


class ZygoteProcess:
    """A running zygote and its control socket."""

    def __init__(self, mode: str, target: str, root: str, without: Collection[str], seed: int) -> None:
        self.lock = threading.Lock()
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        scratch = os.path.join(root, f"zygote-{mode}-{secrets.token_hex(4)}")
        os.mkdir(scratch, 0o700)
        environment = {name: value for name, value in os.environ.items() if name in _INHERITED}
        environment |= {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "PYTHONNOUSERSITE": "1"}
        environment["PYTHONHASHSEED"] = str(derive(seed, "hash") % 2**32)
        environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", "TRITON_INTERPRET": "1"}
        environment |= {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}  # no candidate meets a GPU
        if mode == "compile":
            del environment["TRITON_INTERPRET"]
        command = [sys.executable, "-m", f"{__package__}.zygote", "--control", str(theirs.fileno())]
        command += ["--mode", mode, "--target", target, "--scratch", scratch]
        command += [word for name in without for word in ("--without", name)]
        self.log = tempfile.TemporaryFile(dir=root)  # noqa: SIM115 (closed with the zygote)
        with theirs:
            self.process = subprocess.Popen(
                command,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=self.log,
                stderr=self.log,
                env=environment,
                start_new_session=True,
            )
        self.control.settimeout(_START_TIMEOUT_S)
        try:
            packet = self.control.recv(1 << 16)
        except TimeoutError:
            packet = b""
        if not packet:
            words = self.last_words()
            self.close()
            raise SandboxError(f"the {mode} zygote did not start: {words}")
        self.protections: dict[str, Any] = json.loads(packet)["ready"]

    def last_words(self) -> str:
        """Return the last line that the zygote printed."""
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    @property
    def is_up(self) -> bool:
        """Return whether the process runs."""
        return self.process.poll() is None

    def submit(self, order: dict[str, Any], connection: socket.socket) -> None:
        """Hand over a job's socket; raises OSError where the zygote is gone."""
        with self.lock:
            _send(self.control, order, connection)

    def close(self) -> None:
        """End the zygote: the closed control socket tells it to, and a signal does if it will not listen."""
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_RDWR)  # others may have borrowed it
        self.control.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


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
