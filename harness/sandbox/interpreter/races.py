"""Data races: programs of one launch that meet in memory without an atomic between them, and threads of one program.

The interpreter runs programs one after another, so a sum that programs add to by plain loads and stores comes out right
here and is anything on a GPU, where they run side by side. Watched are plain accesses of one launch, element by
element. A program must not load what another one has stored, nor store a different value where another one has stored
or loaded. Programs that each performed an atomic in between, the one after its store and the other before its access,
are taken to have agreed on an order ("the last block adds up"): what they agreed on is not examined here, but such
programs are run once more, one within another (`run_interleaved`). The one atomic must release and the other acquire,
which `sem="relaxed"` does not, and one whose scope is a thread block tells nothing to programs of others. And one
thread alone performs an atomic on one address: it releases what this thread has
stored, and of what the others have that alone which a barrier lies behind. Triton puts none there.

The lanes of a block are spread over threads, which run side by side too. So two lanes of one store must not give one
element different values, and a lane must not load what another one has stored, by the same program, with no barrier in
between. Which lanes a thread has depends on the block's shape; the same lane of the same shape is taken for the same
thread, unless the compiled kernel accesses the buffer in several layouts (`recording.compiled_kernel`). And where its
loop loads ahead from a buffer that it stores to, what the loop has stored it must not load.
"""

from __future__ import annotations

import contextlib
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from attrs import define, field
from numpy.typing import NDArray

from ..candidate_module import find_cause
from .accesses import Access, Watcher, watched_by
from .buffers import find_stretch
from .programs import Place, backwards, run_with

_MANY = -1
_MOST_HOLDS = 8
_MOST_PROGRAMS = 256
_MOST_ACCESSES = 500
"""A program that makes so many within another one is taken to wait for it."""

Range = tuple[int, int]


class DataRace(Exception):
    """Two accesses of a launch to the same element whose order nobody has settled, and one of them stores."""

    def __init__(
        self,
        message: str = "two programs of one launch access the same memory, and one stores to it, without an atomic "
        "between them that publishes what was stored (tl.debug_barrier(), one that releases, and one that acquires)",
    ) -> None:
        super().__init__(message)


@define
class _Program:
    """What one program has done so far, by times."""

    began: int
    last_atomic: int = 0
    has_acquired: bool = False
    """Whether it has performed an atomic that acquires."""
    published: int = 0
    """Until when its stores are published: its last barrier before its last atomic that releases."""
    released: dict[int, int] = field(factory=dict)
    """And when it was, by the shape of the atomic: the threads that performed it had stored before."""


@define
class _Watch(Watcher):
    """Records what one launch has done; times count accesses, and 0 is never."""

    start: int
    shift: int
    stored: NDArray[np.int32]
    """When each element was last stored to."""
    readers: NDArray[np.int32]
    """Which program has loaded each element, counted from 1, or `_MANY`."""
    lane: NDArray[np.int64]
    """Which lane stored each element last."""
    shapes: dict[tuple[int, ...], int] = field(factory=dict)
    spread: Sequence[Range] = ()
    """Elements that compiled code stores and loads in different layouts."""
    ahead: Sequence[Range] = ()
    """Elements that a loop of compiled code stores and loads ahead of its iterations."""
    loops: list[int] = field(factory=list)
    """When each of the loops began in which the program is."""
    last_barrier: int = 0
    clock: int = 0
    program: tuple[int, int, int] | None = None
    programs: list[_Program] = field(factory=list)
    relies_on_atomics: bool = False
    """Whether an access was taken to be in order for the atomics around it alone."""
    narrow: NDArray[np.int32] | None = None
    """Which program, counted from 1, has performed an atomic on an element whose scope is a thread block."""

    def load(self, access: Access) -> None:
        elements, lanes = self._find_elements(access), self._number_lanes(access)
        if self._is_foreign(elements):
            raise DataRace
        times = self.stored[elements]
        own = times > max(self.programs[-1].began - 1, self.last_barrier)
        if own.any():
            is_elsewhere = self.lane[elements] != lanes
            if access.lanes.size > 1:
                is_elsewhere |= _is_within(elements, self.spread)
            if np.any(is_elsewhere & own):
                raise DataRace("a lane loads what another lane has stored, with no barrier between the two")
        if self.loops and np.any(
            (times > max(self.programs[-1].began - 1, self.loops[-1])) & _is_within(elements, self.ahead)
        ):
            raise DataRace(
                "a loop that is pipelined loads what it has stored, and compiled code loads it before it is stored: "
                "put tl.debug_barrier() into the loop, or give it num_stages=1"
            )
        number = len(self.programs)
        readers = self.readers[elements]
        self.readers[elements] = np.where((readers == 0) | (readers == number), number, _MANY)

    def prepare_store(self, access: Access) -> NDArray[np.int64]:
        """Look at what other programs have to do with the elements, before they hold something else."""
        elements = self._find_elements(access)
        if self._is_shared(elements):
            changed = elements[_find_changed(access)]
            if changed.size and self._is_shared(changed):
                raise DataRace
        return elements

    def _is_shared(self, elements: NDArray[np.int64]) -> bool:
        """Return whether another program has stored to one of them or loaded one, with no order between the two."""
        return self._is_foreign(elements) or self._is_read_by_others(elements)

    def store(self, access: Access, prepared: NDArray[np.int64]) -> None:
        elements, lanes = prepared, self._number_lanes(access)
        self.stored[elements] = self.clock
        self.lane[elements] = lanes
        if elements.size > 1:
            winners = self.lane[elements]
            if np.any(winners != lanes):
                given = access.new_values()
                others = given[np.searchsorted(lanes, winners)]
                if np.any((given != others) & ~((given != given) & (others != others))):
                    raise DataRace("two lanes of one store give the same memory different values")

    def combine(self, access: Access) -> None:
        elements = self._find_elements(access)
        if self._is_foreign(elements, by_atomic=True):
            raise DataRace
        if access.is_narrow or self.narrow is not None:
            self._note_scope(elements, access.is_narrow)
        program = self.programs[-1]
        program.has_acquired |= access.acquires
        if access.releases:
            program.published = self.last_barrier
            program.released[self._number_shape(access)] = self.clock
        program.last_atomic = self.last_barrier = self.clock

    def _note_scope(self, elements: NDArray[np.int64], is_narrow: bool) -> None:
        """Note an atomic of which programs of other blocks are not told, or one on what such an atomic has changed."""
        if self.narrow is None:
            self.narrow = np.zeros(self.stored.size, np.int32)
        owners = self.narrow[elements]
        if np.any((owners != 0) & (owners != len(self.programs))):
            raise DataRace("programs meet in atomics of the scope of one thread block: leave scope= out, or say 'gpu'")
        if is_narrow:
            self.narrow[elements] = len(self.programs)

    def wait(self) -> None:
        self.last_barrier = self.clock

    def begin_loop(self) -> None:
        self.loops.append(self.clock)

    def end_loop(self) -> None:
        self.loops.pop()

    def _find_elements(self, access: Access) -> NDArray[np.int64]:
        """Return the accessed elements, at a new time and in the program that the interpreter now runs."""
        self.clock += 1
        if access.program != self.program:
            self.program = access.program
            self.programs.append(_Program(began=self.clock))
        return access.find_elements(self.start, self.shift)

    def _number_shape(self, access: Access) -> int:
        return self.shapes.setdefault(tuple(size for size in access.lanes.shape if size != 1), len(self.shapes))

    def _number_lanes(self, access: Access) -> NDArray[np.int64]:
        """Return the numbers of the accessing lanes, ascending and in the order of the elements.

        Other shapes have others.
        """
        found: NDArray[np.int64] = np.flatnonzero(access.lanes) + (self._number_shape(access) << 32)
        return found

    def _is_foreign(self, elements: NDArray[np.int64], by_atomic: bool = False) -> bool:
        """Return whether another program has stored to one of them, with no order between the two."""
        times = self.stored[elements]
        is_of_others = (times > 0) & (times < self.programs[-1].began)
        if not is_of_others.any():
            return False
        if not (by_atomic or self.programs[-1].has_acquired):
            return True
        self.relies_on_atomics |= not by_atomic
        shapes = self.lane[elements[is_of_others]] >> 32
        stores = np.unique(np.stack([times[is_of_others].astype(np.int64), shapes]), axis=1)
        return not all(self._is_published(time, shape) for time, shape in stores.T.tolist())

    def _is_published(self, time: int, shape: int) -> bool:
        """Return whether a program has let others read what it stored at a time by a block of a shape."""
        program = self.programs[bisect_right(self.programs, time, key=lambda each: each.began) - 1]
        return max(program.published, program.released.get(shape, 0)) >= time

    def _is_read_by_others(self, elements: NDArray[np.int64]) -> bool:
        """Return whether another program has loaded one of them, with no order between the two."""
        readers = self.readers[elements]
        is_read = bool(np.any((readers != 0) & (readers != len(self.programs))))
        self.relies_on_atomics |= is_read
        return is_read and not self.programs[-1].last_atomic


@contextlib.contextmanager
def watching(
    memory: Sequence[torch.Tensor],
    item_bytes: int,
    spread: Sequence[torch.Tensor] = (),
    ahead: Sequence[torch.Tensor] = (),
) -> Iterator[_Watch]:
    """Watch a launch on buffers in one stretch of memory, whose smallest elements have `item_bytes`.

    Compiled code accesses those that are `spread` in different layouts, and loads from those `ahead` before it stores.
    """
    start, stop = find_stretch(memory)
    shift = item_bytes.bit_length() - 1
    size = ((stop - start) >> shift) + 1
    stored, readers, lane = np.zeros(size, np.int32), np.zeros(size, np.int32), np.zeros(size, np.int64)

    def find_range(buffer: torch.Tensor) -> Range:
        first = buffer.data_ptr() - start
        return first >> shift, (first + buffer.nbytes) >> shift

    watch = _Watch(
        start=start,
        shift=shift,
        stored=stored,
        readers=readers,
        lane=lane,
        spread=[find_range(buffer) for buffer in spread],
        ahead=[find_range(buffer) for buffer in ahead],
    )
    with watched_by(watch):
        yield watch


def _is_within(elements: NDArray[np.int64], ranges: Sequence[Range]) -> NDArray[np.bool_]:
    found = np.zeros(elements.shape, dtype=bool)
    for low, high in ranges:
        found |= (elements >= low) & (elements < high)
    return found


def _find_changed(access: Access) -> NDArray[np.bool_]:
    """Return which elements a store changes; equal values may be stored by anybody."""
    before = access.held_values()
    now = access.new_values().astype(before.dtype, copy=False)
    return np.asarray((before != now) & ~((before != before) & (now != now)))


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
