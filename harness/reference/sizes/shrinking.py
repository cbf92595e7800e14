"""Sizes for the tiny, small and larger runs of a task that states none, found by trying its reference.

A constant may be bound to another one (heads that must divide a width) or be no size at all (a kernel width, an axis),
so a shrink is kept only where the reference still runs. What declared sizes can be (gigabytes) is never tried for real:
sizes at which the reference cannot be computed in about a second count as those at which it does not run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, islice

from attrs import evolve

from ....core.task import Constants, Task
from ...errors import TaskError

Runs = Callable[[Task, Constants], bool]
"""Whether a task's reference runs with these constants."""

TINY, SMALL, LARGER = 7, 48, 80
"""The largest value that a shrunk size keeps; no multiple of a block, so that masks are exercised."""
_MOST_TRIALS = 60
"""A task with many constants has more subsets than anybody waits for."""
_DIVISIBLE = 12
"""By what models divide their channels: groups of three, a quarter of them, or both."""


def with_small_sizes(
    task: Task, constants: dict[str, int], ceilings: tuple[int, int, int] = (TINY, SMALL, LARGER)
) -> Task:
    """The task with sizes for the tiny, small and larger runs, none above its ceiling where the reference allows it."""
    tiny, small, larger = (shrink(task, constants, ceiling) for ceiling in ceilings)
    return evolve(task, tiny=tiny, small=small, larger=larger)


def runs_with(task: Task, constants: Constants) -> bool:
    """Whether the reference runs with these constants, in about a second at the most."""
    from .. import reference
    from .declared_sizes import is_within_reach, with_declared

    try:
        if not is_within_reach(with_declared(task, constants)):
            return False
    except TaskError:
        return False
    return reference.runs_with(task, constants)


def shrink(task: Task, constants: dict[str, int], ceiling: int, runs: Runs = runs_with) -> Constants:
    """Constants at most `ceiling` where the reference allows it: all at once, else as many as it allows."""
    for proposal in islice(_propose(constants, ceiling), _MOST_TRIALS):
        if runs(task, tuple(proposal.items())):
            return tuple(proposal.items())
    kept: dict[str, int] = {}
    for name, value in constants.items():
        for attempt in (ceiling, _power(ceiling)):
            trial = {**kept, name: attempt}
            if value > ceiling and runs(task, tuple(trial.items())):
                kept = trial
                break
    return tuple(kept.items())


def _power(ceiling: int) -> int:
    # keeps the divisibility that most refusals are about
    return 1 << (ceiling.bit_length() - 1)


def _propose(constants: dict[str, int], ceiling: int) -> Iterator[dict[str, int]]:
    """All at the ceiling, then at a power of two, then in proportion; then these without one constant, without two.

    Before constants are left out, all at a multiple of one that is small itself (of groups, say, or heads), or of 12.
    """
    large = {name: value for name, value in constants.items() if value > ceiling}
    steps = sorted({value for value in constants.values() if 1 < value <= ceiling})
    steps += [_DIVISIBLE] if ceiling > _DIVISIBLE and _DIVISIBLE not in steps else []
    for num_left_out in range(min(3, len(large))):
        for left_out in combinations(large, num_left_out):
            sizes = {name: value for name, value in large.items() if name not in left_out}
            yield dict.fromkeys(sizes, ceiling)
            yield dict.fromkeys(sizes, _power(ceiling))
            # the least that takes the largest to the ceiling or below
            shift = (max(sizes.values()) // (ceiling + 1)).bit_length()
            yield {name: max(1, value >> shift) for name, value in sizes.items()}
            if num_left_out == 0:
                yield from (dict.fromkeys(sizes, ceiling // step * step) for step in steps)
