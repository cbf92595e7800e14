"""Interleaved launches: programs that rely on atomics run within one another, which a lock or a ticket must stand.

Programs that agree on an order by atomics are not examined access by access (`races`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from attrs import define, field
from numpy.typing import NDArray

from ..candidate_module import find_cause
from .accesses import Access, Watcher, watched_by
from .buffers import find_stretch
from .programs import Place, backwards, run_with
from .races import DataRace

_MOST_HOLDS = 8
_MOST_PROGRAMS = 256
_MOST_ACCESSES = 500
"""A program that makes so many within another one is taken to wait for it."""


class _Waiting(Exception):
    """The program within another one does not end."""


@define
class _Interleaving(Watcher):
    """One launch, whose programs run within one another; times count accesses.

    A program that loads an element, adds to it and stores it loses what another one stores in between. Atomics before
    and after prevent that only if programs wait for what they say, which no order of whole programs shows. So where
    programs rely on atomics, a program that is about to store what it has loaded is held, the next one runs from its
    beginning to its end, and then the store goes on: it must not overwrite what the other one has left. A GPU may do
    just that. Where the other one waits (a lock), it cannot run there, and no more is said.
    """

    start: int
    shift: int
    pending: list[Place]
    run_one: Callable[[Place], None]
    stored: NDArray[np.int32]
    """When each element was last stored to."""
    loaded: dict[int, int] = field(factory=dict)
    """When the outer program last loaded or stored an element."""
    clock: int = 0
    num_holds: int = 0
    num_inner: int = 0
    is_inner: bool = False
    has_atomics: bool = False

    def load(self, access: Access) -> None:
        self._note(self._find_elements(access))

    def prepare_store(self, access: Access) -> NDArray[np.int64]:
        """Hold the program, if it may be held, and see whether it is about to overwrite what another one has left."""
        elements = self._find_elements(access)
        replaced = self._hold(access, elements)
        if replaced is not None and replaced.any():
            before = access.held_values()
            if np.any((before != access.new_values().astype(before.dtype, copy=False)) & replaced):
                raise DataRace("a program stores what it made of a value that another one has replaced meanwhile")
        return elements

    def store(self, access: Access, prepared: NDArray[np.int64]) -> None:
        self.stored[prepared] = self.clock
        self._note(prepared)

    def combine(self, access: Access) -> None:
        self._find_elements(access)
        self.has_atomics |= not self.is_inner

    def _find_elements(self, access: Access) -> NDArray[np.int64]:
        """Return the accessed elements, at a new time."""
        self.clock += 1
        if self.is_inner:
            self.num_inner += 1
            if self.num_inner > _MOST_ACCESSES:
                raise _Waiting
        return access.find_elements(self.start, self.shift)

    def _note(self, elements: NDArray[np.int64]) -> None:
        """Note that the outer program knows what these elements hold."""
        if not self.is_inner:
            self.loaded.update(dict.fromkeys(elements.tolist(), self.clock))

    def _hold(self, access: Access, elements: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Run another program before a store; which of the elements it has stored to since they were loaded."""
        known = np.array([self.loaded.get(element, 0) for element in elements.tolist()])
        may_hold = self.has_atomics and not self.is_inner and self.pending and self.num_holds < _MOST_HOLDS
        if not may_hold or not known.any():
            return None
        self.num_holds += 1
        outer, self.is_inner, self.num_inner = access.program, True, 0
        self.run_one(self.pending.pop())
        self.is_inner = False
        access.builder.set_grid_idx(*outer)
        return (known > 0) & (self.stored[elements] > known)

    def begin(self, place: Place) -> None:
        """Run a program that may be held."""
        self.loaded, self.has_atomics = {}, False
        self.run_one(place)


def run_interleaved(
    function: Any, grid: Place, arguments: dict[str, Any], memory: Sequence[torch.Tensor], item_bytes: int
) -> None:
    """Run a launch on buffers in one stretch of memory, whose smallest elements have `item_bytes`.

    Raises DataRace; whatever else goes wrong may be due to programs that cannot run within others, and ends it.
    """
    if math.prod(grid) > _MOST_PROGRAMS:
        return
    start, stop = find_stretch(memory)
    shift = item_bytes.bit_length() - 1

    def drive(run_one: Callable[[Place], None]) -> None:
        stored = np.zeros(((stop - start) >> shift) + 1, np.int32)
        pending = list(backwards(grid))
        state = _Interleaving(start=start, shift=shift, pending=pending, run_one=run_one, stored=stored)
        with watched_by(state):
            while state.pending:
                state.begin(state.pending.pop())

    try:
        run_with(function, grid, arguments, drive)
    except Exception as error:
        if find_cause(error, DataRace) is not None:
            raise
