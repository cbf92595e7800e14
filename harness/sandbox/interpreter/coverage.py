"""Coverage of a launch of which only some programs run: what they wrote, and which of it can be compared.

An interpreter that runs some hundred programs a second cannot run a kernel at the declared sizes. It can run a few
programs of each launch, drawn by the judge, and the last of each axis, where masks matter: what they write can be
compared, and how much each of them writes tells whether all write the whole result.

Every element of the plan's memory is unwritten, written, or tainted. Tainted is what programs that did not run may
have to do with: what an atomic touched, what a later launch may have overwritten, and all that a program stores after
it has loaded such an element, or one that an earlier launch may have written and no program that ran has. A program
that has loaded a tainted integer ends there: it may be an index or a bound, and what it holds is no number of anything.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from attrs import define, field
from numpy.typing import NDArray

from ....core.plan import BufferKind, Copy, Kernel, Launch, LaunchPlan
from ....core.run import LaunchSample, RunRequest
from ....stages.plan_validation import written_views
from .accesses import Access, Watcher, watched_by
from .buffers import find_stretch
from .programs import Place, neighbour, replace, run_programs

_UNWRITTEN, _WRITTEN, _TAINTED, _EARLIER = range(4)
"""`_EARLIER` is written by a launch before the current one, which may overwrite it."""

Range = tuple[int, int]


class UnknownIndex(Exception):
    """A program has loaded an integer that programs which did not run may have to write."""


@define
class WriteCoverage(Watcher):
    """States of a stretch of memory at `start`, noted at the first byte of each element.

    `returned` are the ranges of bytes of the returned buffers, in which each program's new elements are counted;
    `temporaries` are those of each temporary, by the buffer's index, and `doubtful` the ones among them that programs
    which did not run may have written.
    """

    start: int
    states: NDArray[np.uint8]
    returned: tuple[Range, ...]
    temporaries: dict[int, Range]
    launches: list[LaunchSample] = field(factory=list)
    doubtful: set[int] = field(factory=set)
    is_tainted: bool = False
    _is_whole: bool = True
    _counts: list[int] = field(factory=list)
    _num_unknown: int = 0
    _is_counted: bool = False
    _grid: Place = (1, 1, 1)
    _place: Place = (0, 0, 0)
    _stored: dict[Place, list[NDArray[np.int64]]] = field(factory=dict)
    _own: list[NDArray[np.int64]] = field(factory=list)
    _overlaps: bool = False
    _has_atomics: bool = False
    _had_taint: bool = False
    _given: set[int] = field(factory=set)
    _written: set[int] = field(factory=set)

    def begin_launch(self, kernel: Kernel, launch: Launch, is_whole: bool) -> None:
        """Prepare for a launch, of which all programs run or some."""
        self._given = {view.buffer for view in launch.views.values()} & self.temporaries.keys()
        self._written = {view.buffer for view in written_views(launch, kernel)} & self.temporaries.keys()
        self._is_whole, self._counts, self._num_unknown, self._had_taint = is_whole, [], 0, False
        self._overlaps, self._grid, self._stored = False, launch.grid, {}
        if not is_whole and self.launches:
            for low, high in map(self.temporaries.__getitem__, self._written):
                states = self.states[low:high]
                states[states == _WRITTEN] = _EARLIER

    def end_launch(self) -> None:
        """Settle what the launch leaves to doubt."""
        if not self._is_whole and self.launches:
            for low, high in map(self.temporaries.__getitem__, self._written):
                states = self.states[low:high]
                states[states == _EARLIER] = _TAINTED
        if not self._is_whole or self._had_taint:
            self.doubtful |= self._written
        stored = {place: np.unique(np.concatenate(parts)) for place, parts in self._stored.items() if parts}
        self.launches.append(
            LaunchSample(
                written_by_program=tuple(self._counts),
                num_unknown=self._num_unknown,
                overlaps=self._overlaps,
                stored_by_program=tuple(elements.size for elements in stored.values()),
                new_along=find_new(stored, self._grid),
            )
        )
        self._stored.clear()

    @contextlib.contextmanager
    def watching_whole(self, kernel: Kernel, launch: Launch) -> Iterator[None]:
        """Watch a launch whose programs all run at once: together they count as one, and the others as nothing."""
        self.begin_launch(kernel, launch, is_whole=True)
        self.begin_program((0, 0, 0), is_counted=True)
        with watched_by(self):
            yield
        self._counts += [0] * (math.prod(launch.grid) - 1)
        self.end_launch()

    def begin_program(self, place: Place, is_counted: bool) -> None:
        """Prepare for a program; those that are not counted run to be compared alone."""
        self.is_tainted, self._has_atomics, self._is_counted, self._own = False, False, is_counted, []
        self._place = place
        if is_counted:
            self._counts.append(0)

    def give_up(self) -> None:
        """Note that the program cannot go on: how much it writes is unknown."""
        self._had_taint = True
        if self._is_counted:
            self._counts.pop()
            self._stored.pop(self._place, None)
            self._num_unknown += 1

    def load(self, access: Access) -> None:
        if not (self.doubtful or self._has_atomics):
            return
        offsets = access.find_elements(self.start)
        states = self.states[offsets]
        is_tainted = bool(np.any(states == _TAINTED))
        for index in self.doubtful:
            low, high = self.temporaries[index]
            is_tainted |= bool(np.any((states == _UNWRITTEN) & (offsets >= low) & (offsets < high)))
        if self._has_atomics and not self._is_whole:
            # programs that agreed on an order by atomics may pass values to each other
            for low, high in map(self.temporaries.__getitem__, self._given):
                is_tainted |= bool(np.any((offsets >= low) & (offsets < high)))
        if is_tainted:
            self.is_tainted = self._had_taint = True
            if access.element.is_int() and not self._has_atomics:  # it may hold a lock
                raise UnknownIndex

    def store(self, access: Access, prepared: Any) -> None:
        self._note(access.find_elements(self.start), _TAINTED if self.is_tainted else _WRITTEN)

    def combine(self, access: Access) -> None:
        offsets = access.find_elements(self.start)
        if self.doubtful and np.any(self.states[offsets] == _TAINTED):
            self.is_tainted = self._had_taint = True
        self._has_atomics = True
        self._note(offsets, _WRITTEN if self._is_whole and not self.is_tainted else _TAINTED)

    def _note(self, offsets: NDArray[np.int64], state: int) -> None:
        known = self.states[offsets]
        fresh = np.unique(offsets[known == _UNWRITTEN])
        self.states[offsets] = state
        if not self._is_counted:
            return
        again = offsets[known == _WRITTEN]
        for low, high in self.returned:
            self._counts[-1] += int(np.count_nonzero((fresh >= low) & (fresh < high)))
            if not self._is_whole:
                inside = offsets[(offsets >= low) & (offsets < high)]
                self._stored.setdefault(self._place, []).append(inside)
            if again.size and not (self._is_whole or self._overlaps):
                inside = again[(again >= low) & (again < high)]
                self._overlaps = not np.isin(inside, np.concatenate([*self._own, fresh])).all()
        self._own.append(fresh)

    def carry(self, copy: Copy, source: torch.Tensor, target: torch.Tensor) -> None:
        """Let a copied element count as what its source was."""
        self._window(target).copy_(self._window(source).clone())
        if copy.source.buffer in self.doubtful:
            self.doubtful.add(copy.target.buffer)

    def fill(self, target: torch.Tensor) -> None:
        """Let elements that were filled count as not written by a kernel."""
        self._window(target).fill_(_UNWRITTEN)

    def written_bits(self, view: torch.Tensor) -> bytes:
        """Return a bit for each element of a view that says if a kernel wrote it."""
        return np.packbits(self._states_of(view) != _UNWRITTEN).tobytes()

    def tainted_bits(self, view: torch.Tensor) -> bytes:
        """Return a bit for each element of a view that says if its value is tainted."""
        return np.packbits(self._states_of(view) == _TAINTED).tobytes()

    def _states_of(self, view: torch.Tensor) -> NDArray[np.uint8]:
        states: NDArray[np.uint8] = self._window(view).contiguous().numpy().reshape(-1)
        return states

    def _window(self, view: torch.Tensor) -> torch.Tensor:
        size = view.element_size()
        steps = [step * size for step in view.stride()]
        return torch.from_numpy(self.states).as_strided(tuple(view.shape), steps, view.data_ptr() - self.start)


def find_new(stored: Mapping[Place, NDArray[np.int64]], grid: Place) -> tuple[tuple[float, ...], ...]:
    """Return, by axis, the shares of programs' elements that the one before it along the axis has not."""
    pairs = [[(stored[place], stored.get(neighbour(place, axis, grid))) for place in stored] for axis in range(3)]
    return tuple(
        tuple(
            1.0 - float(np.isin(later, earlier, assume_unique=True).mean())
            for earlier, later in pairs[axis]
            if later is not None and later.size and grid[axis] > 1
        )
        for axis in range(3)
    )


def start_coverage(plan: LaunchPlan, buffers: Sequence[torch.Tensor]) -> WriteCoverage:
    """Start with nothing written in the plan's buffers, which lie in one stretch of memory."""
    start, _ = find_stretch(buffers)
    ranges = [(b.data_ptr() - start, b.data_ptr() - start + b.nbytes) if b.nbytes else (0, 0) for b in buffers]
    return WriteCoverage(
        start=start,
        states=np.zeros(max((high for _, high in ranges), default=0), dtype=np.uint8),
        returned=tuple(ranges[index] for index in sorted(_returned(plan))),
        temporaries={n: ranges[n] for n, b in enumerate(plan.buffers) if b.kind is BufferKind.TEMPORARY},
    )


def _returned(plan: LaunchPlan) -> set[int]:
    """Return the buffers that are returned, as they are or by way of copies."""
    found = {view.buffer for view in plan.outputs}
    for step in reversed(plan.steps):
        if isinstance(step, Copy) and step.target.buffer in found:
            found.add(step.source.buffer)
    return found


def draw_programs(request: RunRequest, grid: Place) -> tuple[list[Place], list[Place]]:
    """Draw programs that run and are counted, and further ones at the ends of the grid's axes, which are not.

    Each drawn one comes with its next along every axis. Neighbours show what single programs would not: that one axis
    of the grid makes no difference, so that its programs write the same elements. Equal grids yield equal programs. The
    last ones write less than others, and would spoil the count.
    """
    total = math.prod(grid)
    if request.num_programs >= total:
        return [_place(program, grid) for program in range(total)], []
    draw = random.Random(request.seed)
    chosen: set[Place] = set()
    while len(chosen) < request.num_programs:
        drawn = (draw.randrange(grid[0]), draw.randrange(grid[1]), draw.randrange(grid[2]))
        chosen.add(drawn)
        chosen |= {neighbour(drawn, axis, grid) for axis in range(3)}
    corner = (grid[0] - 1, grid[1] - 1, grid[2] - 1)
    somewhere = (draw.randrange(grid[0]), draw.randrange(grid[1]), draw.randrange(grid[2]))
    ends = {corner, *(replace(somewhere, axis, corner[axis]) for axis in range(3) if grid[axis] > 1)}
    wanted = {_place(program, grid) for program in request.programs if program < total}
    return sorted(chosen), sorted((ends | wanted) - chosen)


def _place(program: int, grid: Place) -> Place:
    return program // (grid[1] * grid[2]), program // grid[2] % grid[1], program % grid[2]


def run_sample(
    function: Any,
    kernel: Kernel,
    launch: Launch,
    arguments: dict[str, Any],
    request: RunRequest,
    coverage: WriteCoverage,
) -> None:
    """Run the drawn programs of a launch; the others count in the grid and do nothing."""
    counted, ends = draw_programs(request, launch.grid)
    drawn = frozenset(counted)

    @contextlib.contextmanager
    def watch(place: Place) -> Iterator[None]:
        coverage.begin_program(place, is_counted=place in drawn)
        try:
            yield
        except Exception:
            # an unknown index, or what follows from a tainted value, which is no value of anything
            if not coverage.is_tainted:
                raise
            coverage.give_up()

    coverage.begin_launch(kernel, launch, is_whole=len(counted) == math.prod(launch.grid))
    with watched_by(coverage):
        run_programs(function, launch.grid, arguments, [*counted, *ends], watch)
    coverage.end_launch()
