"""Executors' processes that wait for a predecessor's end.

A context's start takes a third of a second alone and seconds where many die at once (docs/log.md, `bench crashes`). So,
once one has ended, a few children wait on its GPU, opened ahead. A start is work for the GPU, and takes a shared turn.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from attrs import frozen

from ..errors import SandboxError
from .turns import Turns

NUM_SPARES = 4
"""Children a GPU; each costs half a gigabyte of its memory. Two are too few for a storm of crashes (docs/log.md)."""

_MOST_AT_ONCE = 64


@frozen(kw_only=True, eq=False)
class Child:
    """A process that has opened its device and waits for requests."""

    pid: int
    connection: socket.socket
    name: str
    turns: Turns

    def is_waiting(self) -> bool:
        """Whether it is still there: it says nothing before it is asked, so that what can be read is its end."""
        readable, _, _ = select.select([self.connection], [], [], 0.0)
        return not readable

    def end(self) -> None:
        """Kill it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.connection.close()


class Spares:
    """Children that wait, by their GPU; `open_child` makes one. Thread-safe."""

    def __init__(self, open_child: Callable[[int], Child]) -> None:
        self._open_child = open_child
        self._lock = threading.Lock()
        # as many as are asked for: they wait for the GPU and take no processor
        self._openers = ThreadPoolExecutor(_MOST_AT_ONCE, "spare")
        self._waiting: defaultdict[int, deque[Future[Child]]] = defaultdict(deque)
        self.starts_s: list[float] = []
        """How long each start took, its wait for a turn left out."""

    def take(self, device: int, turns: Turns) -> Child:
        """One that waits or is being opened; raises SandboxError where none can be opened.

        Nobody who has a turn may ask: what is opened waits for its own behind who waits to time.
        """
        for _ in range(NUM_SPARES):
            # one that could not be opened may have failed for a reason that is gone
            with contextlib.suppress(SandboxError, OSError):
                child = self._next(device, turns).result()
                if child.is_waiting():
                    return child
                child.end()
        return self._open(device, turns)

    def _next(self, device: int, turns: Turns) -> Future[Child]:
        """The oldest, with as many behind it as are to wait."""
        with self._lock:
            waiting = self._waiting[device]
            while len(waiting) <= NUM_SPARES:
                waiting.append(self._openers.submit(self._open, device, turns))
            return waiting.popleft()

    def close(self) -> None:
        """End those that wait."""
        self._openers.shutdown(cancel_futures=True)
        for waiting in self._waiting.values():
            for spare in waiting:
                if not spare.cancelled() and spare.exception() is None:
                    spare.result().end()
            waiting.clear()

    def _open(self, device: int, turns: Turns) -> Child:
        with turns.shared():
            began = time.perf_counter()
            child = self._open_child(device)
            self.starts_s.append(time.perf_counter() - began)
            return child
