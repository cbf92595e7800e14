"""Data races: programs of one launch that meet in memory without an atomic between them.

The interpreter runs programs one after another, so a sum that programs add to by plain loads and stores comes out right
here and is anything on a GPU, where they run side by side. Watched are plain accesses of one launch, element by
element. A program must not load what another one has stored, nor store a different value where another one has stored
or loaded. Programs that each performed an atomic in between, the one after its store and the other before its access,
are taken to have agreed on an order ("the last block adds up"): what they agreed on is not examined.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from attrs import define, field
from numpy.typing import NDArray

_MANY = -1


class DataRace(Exception):
    """Two programs of a launch whose order nobody has settled access the same element, and one of them stores."""

    def __str__(self) -> str:
        return "two programs of one launch access the same memory without an atomic between them, and one stores to it"


@define
class _Watch:
    """What one launch has done; times count accesses, and 0 is never."""

    start: int
    shift: int
    stored: NDArray[np.int32]
    """When each element was last stored to."""
    readers: NDArray[np.int32]
    """Which program has loaded each element, counted from 1, or `_MANY`."""
    clock: int = 0
    program: tuple[int, int, int] | None = None
    began: list[int] = field(factory=list)
    last_atomic: list[int] = field(factory=list)

    def elements(self, builder: Any, pointers: Any, mask: Any) -> NDArray[np.int64]:
        """The accessed elements, at a new time and in the program that the interpreter now runs."""
        self.clock += 1
        if builder.grid_idx != self.program:
            self.program = builder.grid_idx
            self.began.append(self.clock)
            self.last_atomic.append(0)
        chosen = np.broadcast_to(np.asarray(mask, dtype=bool), pointers.data.shape)
        found: NDArray[np.int64] = (pointers.data[chosen].astype(np.int64) - self.start) >> self.shift
        return found

    def foreign(self, elements: NDArray[np.int64], by_atomic: bool = False) -> bool:
        """Whether another program has stored to one of them, with no order between the two."""
        times = self.stored[elements]
        times = times[(times > 0) & (times < self.began[-1])]
        if not times.size:
            return False
        if not (by_atomic or self.last_atomic[-1]):
            return True
        return any(self.last_atomic[bisect_right(self.began, time) - 1] < time for time in np.unique(times).tolist())

    def load(self, elements: NDArray[np.int64]) -> None:
        """Note a load."""
        if self.foreign(elements):
            raise DataRace
        number = len(self.began)
        readers = self.readers[elements]
        self.readers[elements] = np.where((readers == 0) | (readers == number), number, _MANY)

    def read_by_others(self, elements: NDArray[np.int64]) -> bool:
        """Whether another program has loaded one of them, with no order between the two."""
        readers = self.readers[elements]
        return not self.last_atomic[-1] and bool(np.any((readers != 0) & (readers != len(self.began))))


_watches: list[_Watch] = []


@contextlib.contextmanager
def watching(memory: Sequence[torch.Tensor], item_bytes: int) -> Iterator[None]:
    """Watch a launch on buffers in one stretch of memory, whose smallest elements have `item_bytes`."""
    start = min(buffer.data_ptr() for buffer in memory)
    stop = max(buffer.data_ptr() + buffer.numel() * buffer.element_size() for buffer in memory)
    shift = item_bytes.bit_length() - 1
    size = ((stop - start) >> shift) + 1
    _watches.append(_Watch(start=start, shift=shift, stored=np.zeros(size, np.int32), readers=np.zeros(size, np.int32)))
    try:
        yield
    finally:
        _watches.clear()


def install() -> None:
    """Let this process's interpreter report its accesses; after everything that checks where they go."""
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    plain_load, plain_store = builder.create_masked_load, builder.create_masked_store
    plain_combine, plain_swap = builder.create_atomic_rmw, builder.create_atomic_cas

    def load(self: Any, pointers: Any, mask: Any, *options: Any, **named: Any) -> Any:
        result = plain_load(self, pointers, mask, *options, **named)  # first, as it refuses stray addresses
        for watch in _watches:
            watch.load(watch.elements(self, pointers, _lanes(mask)))
        return result

    def store(self: Any, pointers: Any, value: Any, mask: Any, *options: Any, **named: Any) -> Any:
        before = None
        for watch in _watches:
            elements = watch.elements(self, pointers, _lanes(mask))
            inside = elements[(elements >= 0) & (elements < watch.stored.size)]
            if watch.foreign(inside) or watch.read_by_others(inside):
                before = plain_load(self, pointers, mask, None, None, None, False).data
                if _differs(before, value.data, _lanes(mask)):
                    raise DataRace
        result = plain_store(self, pointers, value, mask, *options, **named)
        for watch in _watches:
            watch.stored[elements] = watch.clock
        return result

    def combine(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *options: Any) -> Any:
        result = plain_combine(self, operation, pointers, value, mask, *options)
        _note_atomic(self, pointers, mask.data)
        return result

    def swap(self: Any, pointers: Any, *operands: Any) -> Any:
        result = plain_swap(self, pointers, *operands)
        _note_atomic(self, pointers, True)
        return result

    builder.create_masked_load, builder.create_masked_store = load, store
    builder.create_atomic_rmw, builder.create_atomic_cas = combine, swap


def _note_atomic(builder: Any, pointers: Any, mask: Any) -> None:
    for watch in _watches:
        elements = watch.elements(builder, pointers, mask)
        if watch.foreign(elements, by_atomic=True):
            raise DataRace
        watch.last_atomic[-1] = watch.clock


def _lanes(mask: Any) -> Any:
    return mask if isinstance(mask, np.ndarray) else mask.data


def _differs(before: NDArray[Any], value: NDArray[Any], mask: Any) -> bool:
    """Whether a store changes bits; equal values may be stored by anybody."""
    shape = before.shape
    now = np.ascontiguousarray(np.broadcast_to(value.astype(before.dtype, copy=False), shape))
    changed = (before != now) & ~((before != before) & (now != now))
    return bool(np.any(changed & np.broadcast_to(np.asarray(mask, dtype=bool), shape)))
