"""Sizes that follow from integers of a candidate's text: one more than such a bound, one dimension at a time.

Sizes of profiles are the task's, and what is wrong from some size on, or up to it, may lie between them. A candidate
most often names that size: a block, a threshold, a mask. So each dimension in turn is one more than such an integer, if
that lies between its tiny size and twice the declared one. It is also past twice the declared one, where it has passed
all bounds up to there: a lane that counts in eight bits overflows at a product of several. What is done for a few of
something else shows beside tiny dimensions, and what is done for many beside small ones.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from itertools import chain, combinations_with_replacement, islice, zip_longest

from attrs import frozen

from ....core.task import Constants, Task
from ....core.text.named_sizes import read_sizes
from .declared_sizes import find_growing, runs_quickly_with
from .uneven import make_uneven

_MOST_SIZES, _LEAST_OF_EACH = 6, 2
_MOST_PARTS = 16
"""A dimension that the reference accepts in whole parts alone, as channels in groups, has one of this at most."""


def find_past_bounds(task: Task, bounds: Sequence[int], seed: int) -> tuple[Constants, ...]:
    """Return a few sets of sizes that the reference accepts, each with the dimension that is moved first."""
    declared, draw = read_sizes(task.source), random.Random(seed)
    names = sorted(find_growing(task))
    orders = [
        _Dimension(task=task, name=name, declared=declared).propose(bounds, draw)
        for name in draw.sample(names, len(names))
    ]
    found: list[Constants] = []
    most = max(_MOST_SIZES, _LEAST_OF_EACH * len(names))
    for proposals in chain.from_iterable(zip_longest(*orders, fillvalue=())):
        if len(found) == most:
            break
        accepted = (each for each in proposals if each not in found and runs_quickly_with(task, each, is_short=True))
        found += islice(accepted, 1)
    return tuple(found)


@frozen(kw_only=True)
class _Dimension:
    """One constant of a task, which is moved, while all others are tiny or small."""

    task: Task
    name: str
    declared: dict[str, int]

    def propose(self, bounds: Sequence[int], draw: random.Random) -> Iterator[tuple[Constants, ...]]:
        """Yield proposals, of each of which the first that is accepted counts; those that tell most come first."""
        size, least = self.declared[self.name], dict(self.task.tiny)[self.name]
        met = {size, *(dict(sizes).get(self.name) for sizes in (self.task.tiny, self.task.small, self.task.larger))}

        def choose(proposed: set[int]) -> list[int]:
            return sorted(each for each in proposed - met if least < each <= 2 * size)

        yield self._move_twice(self.task.tiny)
        past = sorted(choose({bound + 1 for bound in bounds}), key=lambda each: abs(math.log(each / size)))
        if past:
            yield self._move(past[0])
        if any(size <= bound <= 2 * size for bound in bounds):
            yield self._move_twice(self.task.small)
        if len(past) > 1:
            yield self._move(past[1])
        products = {one * other + 1 for one, other in combinations_with_replacement(bounds, 2)}
        halved = {2 * (bound + 1) for bound in bounds}
        rest = choose({*past[2:], *products, *halved, *bounds})
        if rest:
            yield self._move(draw.choice(rest))

    def _move_twice(self, others: Constants) -> tuple[Constants, ...]:
        """Past twice the declared size, in whole parts where it must be."""
        most = 2 * self.declared[self.name]
        return self._beside(
            others, [make_uneven(most + 1), *(most // part * part + part for part in self._parts(others))]
        )

    def _move(self, size: int) -> tuple[Constants, ...]:
        """This size beside small ones, or beside tiny ones where it is no larger, or as many parts as that."""
        most = 2 * self.declared[self.name]
        is_small = size <= dict(self.task.small).get(self.name, 0)
        others = self.task.tiny if is_small else self.task.small
        return self._beside(others, [size, *(size * part for part in self._parts(others) if size * part <= most)])

    def _beside(self, others: Constants, wanted: Sequence[int]) -> tuple[Constants, ...]:
        kept = tuple(pair for pair in others if pair[0] != self.name)
        return tuple(((self.name, size), *kept) for size in wanted)

    def _parts(self, others: Constants) -> list[int]:
        """In how many parts the dimension may have to come, by the sizes of the others."""
        sizes = {**self.declared, **dict(others)}
        return sorted({size for name, size in sizes.items() if name != self.name and 1 < size <= _MOST_PARTS})
