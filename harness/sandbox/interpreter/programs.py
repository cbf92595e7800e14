"""Run chosen programs of an interpreted kernel in a chosen order.

A GPU promises no order. Triton's interpreter runs programs by their numbers, and all of them: its loop is given a grid
of one program, within which this one runs those that are wanted.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from types import FunctionType
from typing import Any

from triton.runtime import interpreter

Place = tuple[int, int, int]
Around = Callable[[Place], AbstractContextManager[None]]


def neighbour(place: Place, axis: int, grid: Place) -> Place:
    """Return the next program along an axis of the grid; the first one's place after the last."""
    return replace(place, axis, (place[axis] + 1) % grid[axis])


def replace(place: Place, axis: int, number: int) -> Place:
    """Return a place with another number along an axis."""
    x, y, z = place
    return (number, y, z) if axis == 0 else (x, number, z) if axis == 1 else (x, y, number)


def backwards(grid: Place) -> Iterable[Place]:
    """Return all programs of a grid, the last first."""
    return itertools.product(*(range(size - 1, -1, -1) for size in grid))  # type: ignore[return-value]


def run_with(
    function: Any, grid: Place, arguments: dict[str, Any], drive: Callable[[Callable[[Place], None]], None]
) -> None:
    """Let `drive` run programs of its choice, also within each other: it is given what runs one."""
    rewritten, builder = function.rewrite(), interpreter.interpreter_builder

    def run_all(**values: Any) -> None:
        def run_one(place: Place) -> None:
            builder.set_grid_dim(*grid)
            builder.set_grid_idx(*place)
            rewritten(**values)

        drive(run_one)

    # the executor looks at its function's globals for the kernel language, and at its signature and annotations
    body = run_all
    looped: Any = FunctionType(body.__code__, rewritten.__globals__, rewritten.__name__, None, body.__closure__)
    looped.__signature__, looped.__annotations__ = inspect.signature(rewritten), rewritten.__annotations__
    interpreter.GridExecutor(looped, function.arg_names, (1, 1, 1), function.pre_run_hooks)(**arguments)


def run_programs(
    function: Any,
    grid: Place,
    arguments: dict[str, Any],
    programs: Iterable[Place],
    around: Around = lambda _: nullcontext(),
) -> None:
    """Run these programs, one after another and each within `around(its place)`; each sees the whole grid."""

    def drive(run_one: Callable[[Place], None]) -> None:
        for place in programs:
            with around(place):
                run_one(place)

    run_with(function, grid, arguments, drive)
