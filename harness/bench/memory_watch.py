"""The memory of this process and of all that it started, and of the GPUs, looked at several times a second."""

from __future__ import annotations

import contextlib
import os
import threading
from types import TracebackType

from ..sandbox.confinement.watch import count_kills, processes

_INTERVAL_S = 0.25


class MemoryWatch:
    """A thread that notes the peaks while it is open; memory that processes share counts once."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self.peak_gpu_bytes = 0
        self.num_killed = 0
        """Processes that the kernel has ended for want of memory, of anybody's."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="memory watch", daemon=True)
        self._kills_before = 0

    def __enter__(self) -> MemoryWatch:
        self._kills_before = count_kills()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self.num_killed = count_kills() - self._kills_before

    def _look(self) -> None:
        while True:
            self.peak_bytes = max(self.peak_bytes, count_bytes(os.getpid()))
            self.peak_gpu_bytes = max(self.peak_gpu_bytes, _count_gpu_bytes())
            if self._over.wait(_INTERVAL_S):
                return


def count_bytes(root: int) -> int:
    """Return the memory of a process and its descendants: its own part of what it shares with others."""
    children: dict[int, list[int]] = {}
    for pid, parent, _ in processes():
        children.setdefault(parent, []).append(pid)
    total, pending = 0, [root]
    while pending:
        pid = pending.pop()
        pending += children.get(pid, [])
        total += _own_bytes(pid)
    return total


def _own_bytes(pid: int) -> int:
    for name, field in (("smaps_rollup", b"Pss:"), ("status", b"VmRSS:")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as file:
            for line in file:
                if line.startswith(field):
                    return int(line.split()[1]) << 10
    return 0


def _count_gpu_bytes() -> int:
    import torch

    # asking would open a context before anybody needs one
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return 0
    free, total = torch.cuda.mem_get_info()
    return int(total - free)
