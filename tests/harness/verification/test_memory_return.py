"""Freed memory goes back to the machine."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path

import pytest
from tritonrl.harness.verification.verifier import MemoryReturn

_NUM_BLOCKS, _BLOCK_BYTES = 4000, 50_000


def _anonymous_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon:"))


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="not glibc")
def test_what_another_thread_freed_is_given_back() -> None:
    """Blocks that a thread freed below one that is still in use do not count for the process any more."""
    kept: list[bytearray] = []

    def fill() -> None:
        blocks = [bytearray(b"x" * _BLOCK_BYTES) for _ in range(_NUM_BLOCKS)]
        kept.append(blocks[-1])

    thread = threading.Thread(target=fill)
    thread.start()
    thread.join()
    before = _anonymous_mb()
    memory = MemoryReturn(interval=2)
    assert not memory.count()
    assert memory.count()
    assert before - _anonymous_mb() > 0.5 * _NUM_BLOCKS * _BLOCK_BYTES / 2**20
