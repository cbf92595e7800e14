"""Data races: programs of one launch that meet in memory without an atomic between them, and threads of one program.

The interpreter runs programs one after another, so a sum that programs add to by plain loads and stores comes out right
here and is anything on a GPU, where they run side by side. Watched are plain accesses of one launch, element by
element. A program must not load what another one has stored, nor store a different value where another one has stored
or loaded. Programs that each performed an atomic in between, the one after its store and the other before its access,
are taken to have agreed on an order ("the last block adds up"): what they agreed on is not examined here, but such
programs are run once more, one within another (`interleaving`). The one atomic must release and the other acquire,
which `sem="relaxed"` does not, and one whose scope is a thread block tells nothing to programs of others. And one
thread alone performs an atomic on one address: it releases what this thread has stored, and of what the others have
that alone which a barrier lies behind. Triton puts none before it.

The lanes of a block are spread over threads, which run side by side too. So of two lanes of a program that access one
element with no barrier in between, neither may change it (`lanes`): whatever the two do, but for two atomics. A
barrier is `tl.debug_barrier()`, or an atomic on one address, whose result all threads wait for. Where a reduction, a
scan, a product or a histogram lies in between, what was loaded before has arrived, as its result hangs on all lanes, so
that it may be stored to; what was stored or added before need not have. The same lane loads what it has stored, unless
the compiled kernel accesses the buffer in several layouts (`recording.compiled_kernel`). And where its loop loads ahead
from a buffer that it stores to, what the loop has stored it must not load.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from attrs import define, field
from numpy.typing import NDArray

from .accesses import Access, Watcher, watched_by
from .buffers import find_stretch
from .lanes import LaneNumbers, Shadow, find_shapes

_LOADED, _STORED, _COMBINED = "loaded", "stored", "changed by an atomic"
_CONFLICTS = {
    "loads": (_STORED, _COMBINED),
    "stores to": (_LOADED, _STORED, _COMBINED),
    "performs an atomic on": (_LOADED, _STORED),
}
"""By what a lane does with an element: what another one must not have done since the last barrier."""
_RACE_OF_LANES = "a lane {} what another lane has {}, with no tl.debug_barrier() between the two"

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
    shadows: dict[str, Shadow]
    """By what a lane has done with an element."""
    has_more_readers: NDArray[np.bool_]
    """Which elements other programs had loaded before the last one did."""
    numbers: LaneNumbers = field(factory=LaneNumbers)
    spread: Sequence[Range] = ()
    """Elements that compiled code stores and loads in different layouts."""
    ahead: Sequence[Range] = ()
    """Elements that a loop of compiled code stores and loads ahead of its iterations."""
    loops: list[int] = field(factory=list)
    """When each of the loops began in which the program is."""
    last_barrier: int = 0
    last_collective: int = 0
    clock: int = 0
    program: tuple[int, int, int] | None = None
    programs: list[_Program] = field(factory=list)
    relies_on_atomics: bool = False
    """Whether an access was taken to be in order for the atomics around it alone."""
    narrow: NDArray[np.int32] | None = None
    """Which program, counted from 1, has performed an atomic on an element whose scope is a thread block."""

    @property
    def barrier(self) -> int:
        """Return until when all lanes of the program have done what they do."""
        return max(self.programs[-1].began - 1, self.last_barrier)

    def load(self, access: Access) -> None:
        elements, lanes = self._find_elements(access), self.numbers.number(access)
        if self._is_foreign(elements):
            raise DataRace
        self._require_barrier("loads", elements, lanes)
        times = self.shadows[_STORED].times[elements]
        if access.lanes.size > 1 and np.any((times > self.barrier) & _is_within(elements, self.spread)):
            raise DataRace(_RACE_OF_LANES.format("loads", _STORED))
        if self.loops and np.any(
            (times > max(self.programs[-1].began - 1, self.loops[-1])) & _is_within(elements, self.ahead)
        ):
            raise DataRace(
                "a loop that is pipelined loads what it has stored, and compiled code loads it before it is stored: "
                "put tl.debug_barrier() into the loop, or give it num_stages=1"
            )
        self.has_more_readers[elements] |= self._is_read_before(elements)
        self._note(_LOADED, elements, lanes)

    def prepare_store(self, access: Access) -> NDArray[np.int64]:
        """Look at what others have to do with the elements, before they hold something else."""
        elements = self._find_elements(access)
        if self._is_shared(elements):
            changed = elements[_find_changed(access)]
            if changed.size and self._is_shared(changed):
                raise DataRace
        self._require_barrier("stores to", elements, self.numbers.number(access), access)
        return elements

    def _is_shared(self, elements: NDArray[np.int64]) -> bool:
        """Return whether another program has stored to one of them or loaded one, with no order between the two."""
        return self._is_foreign(elements) or self._is_read_by_others(elements)

    def store(self, access: Access, prepared: NDArray[np.int64]) -> None:
        lanes = self.numbers.number(access)
        self._note(_STORED, prepared, lanes)
        self._require_barrier("stores to", prepared, lanes, access)  # its own lanes among each other

    def combine(self, access: Access) -> None:
        elements, lanes = self._find_elements(access), self.numbers.number(access)
        if self._is_foreign(elements, by_atomic=True):
            raise DataRace
        if access.is_narrow or self.narrow is not None:
            self._note_scope(elements, access.is_narrow)
        self._require_barrier("performs an atomic on", elements, lanes)
        self._note(_COMBINED, elements, lanes)
        program = self.programs[-1]
        program.has_acquired |= access.acquires
        if access.releases:
            program.published = self.last_barrier
            program.released[self.numbers.number_shape(access)] = self.clock
        program.last_atomic = self.clock
        if access.lanes.size == 1:
            self.last_barrier = self.clock

    def _require_barrier(
        self, does: str, elements: NDArray[np.int64], lanes: NDArray[np.int32], store: Access | None = None
    ) -> None:
        """Raise where lanes meet others in an element with no barrier in between, and a store that it changes."""
        for has in _CONFLICTS[does]:
            if has not in self.shadows:
                continue
            is_met = self.shadows[has].is_of_others(elements, lanes, self._find_order(has))
            if is_met.any() and (store is None or np.any(is_met & _find_changed(store))):
                raise DataRace(_RACE_OF_LANES.format(does, has))

    def _find_order(self, has: str) -> int:
        """Return until when what lanes have done so is over."""
        return max(self.barrier, self.last_collective) if has == _LOADED else self.barrier

    def _note(self, has: str, elements: NDArray[np.int64], lanes: NDArray[np.int32]) -> None:
        if has not in self.shadows:
            self.shadows[has] = Shadow.of(self.has_more_readers.size)
        self.shadows[has].note(elements, lanes, self.clock, self._find_order(has))

    def _note_scope(self, elements: NDArray[np.int64], is_narrow: bool) -> None:
        """Note an atomic of which programs of other blocks are not told, or one on what such an atomic has changed."""
        if self.narrow is None:
            self.narrow = np.zeros(self.has_more_readers.size, np.int32)
        owners = self.narrow[elements]
        if np.any((owners != 0) & (owners != len(self.programs))):
            raise DataRace("programs meet in atomics of the scope of one thread block: leave scope= out, or say 'gpu'")
        if is_narrow:
            self.narrow[elements] = len(self.programs)

    def wait(self) -> None:
        self.last_barrier = self.clock

    def collect(self) -> None:
        self.last_collective = self.clock

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

    def _is_foreign(self, elements: NDArray[np.int64], by_atomic: bool = False) -> bool:
        """Return whether another program has stored to one of them, with no order between the two."""
        times = self.shadows[_STORED].times[elements]
        is_of_others = (times > 0) & (times < self.programs[-1].began)
        if not is_of_others.any():
            return False
        if not (by_atomic or self.programs[-1].has_acquired):
            return True
        self.relies_on_atomics |= not by_atomic
        shapes = find_shapes(self.shadows[_STORED].lanes[elements[is_of_others]])
        stores = np.unique(np.stack([times[is_of_others], shapes]), axis=1)
        return not all(self._is_published(time, shape) for time, shape in stores.T.tolist())

    def _is_published(self, time: int, shape: int) -> bool:
        """Return whether a program has let others read what it stored at a time by a block of a shape."""
        program = self.programs[bisect_right(self.programs, time, key=lambda each: each.began) - 1]
        return max(program.published, program.released.get(shape, 0)) >= time

    def _is_read_by_others(self, elements: NDArray[np.int64]) -> bool:
        """Return whether another program has loaded one of them, with no order between the two."""
        is_read = bool(np.any(self._is_read_before(elements) | self.has_more_readers[elements]))
        self.relies_on_atomics |= is_read
        return is_read and not self.programs[-1].last_atomic

    def _is_read_before(self, elements: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which elements a program before this one was the last to load."""
        times = self.shadows[_LOADED].times[elements]
        return np.asarray((times > 0) & (times < self.programs[-1].began))


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

    def find_range(buffer: torch.Tensor) -> Range:
        first = buffer.data_ptr() - start
        return first >> shift, (first + buffer.nbytes) >> shift

    watch = _Watch(
        start=start,
        shift=shift,
        shadows={_LOADED: Shadow.of(size), _STORED: Shadow.of(size)},
        has_more_readers=np.zeros(size, dtype=bool),
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
    """Return which elements a store changes, or has changed otherwise; equal values may be stored by anybody."""
    before = access.held_values()
    now = access.new_values().astype(before.dtype, copy=False)
    return np.asarray((before != now) & ~((before != before) & (now != now)))
