"""Addresses of tensors that have none, as PyTorch's caching allocator would give them in a process that frees nothing.

The allocator takes segments from the driver and cuts them into blocks: small tensors from segments of 2 MB, larger ones
from segments of 20 MB, and the largest have one of their own, in multiples of 2 MB (`c10/cuda/CUDACachingAllocator`).
The driver gives segments one after another. Where the first one lies is drawn, as it differs between processes.
"""

from __future__ import annotations

import random

_BLOCK = 512
_MEGABYTE = 1 << 20
_SEGMENT = 2 * _MEGABYTE
_LARGE_SEGMENT = 20 * _MEGABYTE
_MOST_SMALL = _MEGABYTE
_LEAST_OWN = 10 * _MEGABYTE
_FIRST, _LAST = 0x7E00_0000_0000, 0x7FF0_0000_0000


class Allocator:
    """One device's addresses, drawn by a seed."""

    def __init__(self, seed: int, device: str) -> None:
        self._next_segment = random.Random(f"{seed}:{device}").randrange(_FIRST, _LAST, _SEGMENT)
        self._begun: dict[int, tuple[int, int]] = {}  # of each kind of segment, where its free part begins and ends

    def take(self, num_bytes: int) -> int:
        """The address of so many bytes that nothing else has."""
        size = max(1, -(-num_bytes // _BLOCK)) * _BLOCK
        if size >= _LEAST_OWN:
            return self._take_segment(-(-size // _SEGMENT) * _SEGMENT)
        length = _SEGMENT if size <= _MOST_SMALL else _LARGE_SEGMENT
        begin, end = self._begun.get(length, (0, 0))
        if end - begin < size:
            begin = self._take_segment(length)
            end = begin + length
        self._begun[length] = (begin + size, end)
        return begin

    def _take_segment(self, length: int) -> int:
        begin, self._next_segment = self._next_segment, self._next_segment + length
        return begin
