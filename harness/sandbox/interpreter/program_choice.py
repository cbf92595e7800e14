"""Running a few programs of a launch: how the declared sizes are looked at without a GPU.

An interpreter that runs some hundred programs a second cannot run a kernel at the sizes that are compiled, timed and
rewarded. It can run a few programs of each launch, drawn by the judge, and the last of each axis, where masks matter:
what they write can be compared (`writes`), and how much each of them writes tells whether all write the whole result.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator
from typing import Any

from attrs import frozen

from ....core.plan import Kernel, Launch
from .accesses import watched_by
from .coverage import Writes
from .programs import Place, neighbour, replace, run_programs


@frozen(kw_only=True)
class ProgramChoice:
    """How many programs of each launch run (0 = all), the seed that chooses them, and further ones by their numbers."""

    num_programs: int = 0
    seed: int = 0
    programs: tuple[int, ...] = ()

    def draw(self, grid: Place) -> tuple[list[Place], list[Place]]:
        """Programs that run and are counted, and further ones at the ends of the grid's axes, which are not.

        Each drawn one comes with its next along every axis. Neighbours show what single programs would not: that one
        axis of the grid makes no difference, so that its programs write the same elements. Equal grids yield equal
        programs. The last ones write less than others, and would spoil the count.
        """
        total = math.prod(grid)
        if self.num_programs >= total:
            return [_place(program, grid) for program in range(total)], []
        draw = random.Random(self.seed)
        chosen: set[Place] = set()
        while len(chosen) < self.num_programs:
            drawn = (draw.randrange(grid[0]), draw.randrange(grid[1]), draw.randrange(grid[2]))
            chosen.add(drawn)
            chosen |= {neighbour(drawn, axis, grid) for axis in range(3)}
        corner = (grid[0] - 1, grid[1] - 1, grid[2] - 1)
        somewhere = (draw.randrange(grid[0]), draw.randrange(grid[1]), draw.randrange(grid[2]))
        ends = {corner, *(replace(somewhere, axis, corner[axis]) for axis in range(3) if grid[axis] > 1)}
        wanted = {_place(program, grid) for program in self.programs if program < total}
        return sorted(chosen), sorted((ends | wanted) - chosen)


def _place(program: int, grid: Place) -> Place:
    return program // (grid[1] * grid[2]), program // grid[2] % grid[1], program % grid[2]


def run_sample(
    function: Any, kernel: Kernel, launch: Launch, arguments: dict[str, Any], choice: ProgramChoice, writes: Writes
) -> None:
    """Run the drawn programs of a launch; the others count in the grid and do nothing."""
    counted, ends = choice.draw(launch.grid)
    drawn = frozenset(counted)

    @contextlib.contextmanager
    def watch(place: Place) -> Iterator[None]:
        writes.begin_program(place, is_counted=place in drawn)
        try:
            yield
        except Exception:
            # an unknown index, or what follows from a tainted value, which is no value of anything
            if not writes.is_tainted:
                raise
            writes.give_up()

    writes.begin_launch(kernel, launch, is_whole=len(counted) == math.prod(launch.grid))
    with watched_by(writes):
        run_programs(function, launch.grid, arguments, [*counted, *ends], watch)
    writes.end_launch()
