"""Sizes that follow from integers of a candidate's text: one more than such a bound, one dimension at a time.

Sizes of profiles are the task's, and what is wrong from some size on, or up to it, may lie between them. A candidate
most often names that size: a block, a threshold, a mask. So each dimension is one past such an integer, between its
tiny size and twice the declared one, while all others are tiny or small, and past twice the declared one beside tiny
others, where all bounds up to there are passed at once. A dimension that another divides takes as many of its parts.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest

from ....core.task import Constants, Task
from ....core.text.named_sizes import read_sizes
from ...errors import TaskError
from ..reference import runs_with
from .declared_sizes import FREE_BYTES, FREE_FLOPS, LEAST_SIZE, measure, uneven, with_declared

_MOST_FACTOR = 16


def find_past_bounds(task: Task, bounds: Sequence[int], seed: int, most: int) -> tuple[Constants, ...]:
    """Return up to so many sets of sizes that the reference accepts, each with the dimension that is moved first."""
    declared = read_sizes(task.source)
    names = sorted(name for name, _ in task.tiny if declared.get(name, 0) >= LEAST_SIZE)
    draw = random.Random(seed)
    orders = [_propose(task, name, declared, bounds) for name in draw.sample(names, len(names))]
    found: list[Constants] = []
    for proposals in chain.from_iterable(zip_longest(*orders, fillvalue=())):
        if len(found) < most:
            found += [sizes for sizes in proposals if _is_accepted(task, sizes)][:1]
    return tuple(found)


def _propose(task: Task, name: str, declared: dict[str, int], bounds: Sequence[int]) -> Iterator[tuple[Constants, ...]]:
    """Yield sets of sizes of which the first that is accepted counts, those that tell most first."""
    tiny, small = dict(task.tiny), {**dict(task.tiny), **dict(task.small)}
    size, least = declared[name], tiny.get(name, declared[name])
    met = {dict(sizes).get(name) for sizes in (task.tiny, task.small, task.larger)} | {size}
    factors = sorted({tiny.get(other, value) for other, value in declared.items() if other != name})
    factors = [1, *(factor for factor in factors if 1 < factor <= _MOST_FACTOR)]

    def move(others: dict[str, int], moved: Sequence[int]) -> tuple[Constants, ...]:
        return tuple(((name, each), *(pair for pair in others.items() if pair[0] != name)) for each in moved)

    yield move(
        tiny, [2 * size // factor * factor + factor if factor > 1 else uneven(2 * size + 1) for factor in factors]
    )
    past = [bound + 1 for bound in bounds if least < bound + 1 <= 2 * size and bound + 1 not in met]
    for each in sorted(past, key=lambda each: abs(math.log(each / size))):
        yield move(small, [factor * each for factor in factors if factor * each <= 2 * size])


def _is_accepted(task: Task, sizes: Constants) -> bool:
    """Whether the reference accepts sizes that are soon interpreted."""
    try:
        num_bytes, num_flops = measure(with_declared(task, sizes))
    except TaskError:
        return False
    return num_bytes <= FREE_BYTES and num_flops <= FREE_FLOPS and runs_with(task, sizes)
