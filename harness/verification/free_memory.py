"""Giving freed memory back to the machine.

glibc keeps what a thread has freed for that thread's next request. A verdict passes tens of megabytes through several
threads, so without this a judge of four threads holds twice what it uses, and grows for hours (`tritonrl bench soak`).
"""

from __future__ import annotations

import ctypes
import threading


class MemoryReturn:
    """Returns freed memory at every `interval`-th call; does nothing where the C library cannot. Thread-safe."""

    def __init__(self, interval: int = 16) -> None:
        self._interval = interval
        self._num_calls = 0
        self._lock = threading.Lock()
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)

    def count(self) -> bool:
        """Count a call; returns whether memory was returned now."""
        with self._lock:
            self._num_calls += 1
            is_due = self._num_calls % self._interval == 0
        if not is_due or self._trim is None:
            return False
        self._trim(0)
        return True
