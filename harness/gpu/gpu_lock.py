"""Whose turn it is on a GPU: many may run, or one may time.

An executor serves one request at a time, but it is not the only one on its GPU: the oracle computes there, and other
processes (other cells of a grid, other users of the same machine) have executors of their own. So whoever uses a GPU
holds a lock on a file that is named after it: shared to run, exclusive to time. Compiling takes no turn. A second file
says that somebody waits to time: shared by all who do, and to be had alone for a moment by whoever begins to run. So
nobody overtakes a timing, and those who wait to time when the last run has ended follow one another, instead of waiting
for new runs each. A timing is prepared in a shared turn, so that runs are not held up for longer than that.

The system releases the locks of a process that dies.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class GpuLock:
    """Turns on one GPU, for all threads and processes of a machine; a thread that has a turn may take another."""

    def __init__(self, gpu: str, folder: Path | None = None) -> None:
        stem = "tritonrl-" + re.sub(r"[^A-Za-z0-9-]", "-", gpu)
        self._paths = [str((folder or Path(tempfile.gettempdir())) / f"{stem}.{kind}") for kind in ("wish", "turn")]
        self._own = threading.local()

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Others may run meanwhile, and nobody times."""
        with self._hold(fcntl.LOCK_SH):
            yield

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Nobody else runs or times; raises RuntimeError for a thread whose turn is a shared one."""
        with self._hold(fcntl.LOCK_EX):
            yield

    @contextmanager
    def _hold(self, kind: int) -> Iterator[None]:
        held = getattr(self._own, "kind", None)
        if held is not None:
            if kind == fcntl.LOCK_EX and held != kind:
                raise RuntimeError("a shared turn cannot become an exclusive one")
            yield
            return
        wish, turn = map(_open, self._paths)
        try:
            if kind == fcntl.LOCK_EX:
                fcntl.flock(wish, fcntl.LOCK_SH)
                fcntl.flock(turn, fcntl.LOCK_EX)
            else:
                fcntl.flock(wish, fcntl.LOCK_EX)
                fcntl.flock(turn, fcntl.LOCK_SH)
                fcntl.flock(wish, fcntl.LOCK_UN)
            self._own.kind = kind
            yield
        finally:
            self._own.kind = None
            # the turn first: who waits for the wish may then begin at once
            os.close(turn)
            os.close(wish)


def _open(path: str) -> int:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        # readable by all: a lock needs no more, and the GPU is everyone's
        return os.open(path, flags | os.O_CREAT, 0o644)
