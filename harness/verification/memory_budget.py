"""Memory that runs at large sizes ask for before anything of them is computed.

A benchmark's problem may have inputs of several gigabytes, and as many candidates are verified at once as there are
processors. So whoever is about to compute with much asks first, and waits in line while others hold it; what is more
than there is at all is refused with its size. Nobody small waits, and no process is ended for want of memory.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from attrs import frozen

from ...stages.funnel import tell_bytes
from ..errors import TooLargeError
from ..lending import Borrower, Reply

FREE_BYTES = 64 << 20
"""So much is never asked for."""
_SHARE_OF_MEMORY = 0.4
_SHARE_OF_GPU = 0.7
_MOST_BYTES = 32 << 30


class MemoryBudget:
    """So many bytes of the host, for all threads and workers of a verifier, first come first served."""

    def __init__(self, num_bytes: int | None = None) -> None:
        self.num_bytes = num_bytes or choose_bytes()
        self.peak_bytes = 0
        self._held_bytes = 0
        self._line: deque[object] = deque()
        self._change = threading.Condition()
        self._own = threading.local()

    @property
    def num_waiting(self) -> int:
        """How many stand in line."""
        return len(self._line)

    @contextmanager
    def asked(self, num_bytes: float, name: str) -> Iterator[None]:
        """Hold so many bytes; raises TooLargeError for what never fits.

        What a thread asks for while it holds some is taken to be a part of that: two that held some and waited for more
        would wait for each other.
        """
        wanted = int(num_bytes)
        if wanted <= FREE_BYTES or getattr(self._own, "holds", False):
            yield
            return
        if wanted > self.num_bytes:
            most = tell_bytes(self.num_bytes)
            raise TooLargeError(f"{name}: needs {tell_bytes(wanted)} of memory, and {most} may be used")
        self.take(wanted)
        self._own.holds = True
        try:
            yield
        finally:
            self._own.holds = False
            self.give_back(wanted)

    def take(self, num_bytes: int) -> None:
        """Wait in line for so many bytes."""
        ticket = object()
        with self._change:
            self._line.append(ticket)
            self._change.wait_for(lambda: self._line[0] is ticket and self._held_bytes + num_bytes <= self.num_bytes)
            self._line.popleft()
            self._held_bytes += num_bytes
            self.peak_bytes = max(self.peak_bytes, self._held_bytes)
            self._change.notify_all()

    def give_back(self, num_bytes: int) -> None:
        """Let others have what was taken."""
        with self._change:
            self._held_bytes -= num_bytes
            self._change.notify_all()


class BudgetSession:
    """The owner's side of a worker that asks for memory: a positive number takes bytes, a negative one gives back."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._held_bytes = 0

    def answer(self, message: int) -> Reply:
        """Take or give back."""
        if message > 0:
            self._budget.take(message)
        else:
            self._budget.give_back(-message)
        self._held_bytes += message
        return None, ()

    def close(self) -> None:
        """Give back what a worker held when it ended."""
        self._budget.give_back(self._held_bytes)


class BorrowedBudget(MemoryBudget):
    """Another process's budget, asked under this name."""

    def __init__(self, num_bytes: int, borrower: Borrower, name: str) -> None:
        super().__init__(num_bytes)
        self._borrower = borrower
        self._name = name

    def take(self, num_bytes: int) -> None:
        """Wait in the owner's line."""
        self._borrower.ask(self._name, num_bytes)

    def give_back(self, num_bytes: int) -> None:
        """Tell the owner."""
        self._borrower.ask(self._name, -num_bytes)


@frozen(kw_only=True)
class Share:
    """A worker's part of what is one verifier's: so many have a part of each budget, and of what is kept."""

    num_sharing: int
    budget: MemoryBudget
    gpu_budget: MemoryBudget


def choose_bytes() -> int:
    """Return what a verifier may use of this machine's memory for large runs."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1 << 30, min(_MOST_BYTES, int(_SHARE_OF_MEMORY * memory)))


def choose_gpu_bytes(device: int) -> int:
    """Return what large runs may use of a GPU's memory, beside executors with what they keep."""
    import torch

    return int(_SHARE_OF_GPU * torch.cuda.get_device_properties(device).total_memory)
