"""Sizes that follow from integers of a candidate's text: one more than such a bound, one dimension at a time.

Sizes of profiles are the task's, and what is wrong from some size on, or up to it, may lie between them. A candidate
most often names that size: a block, a threshold, a mask. So each dimension in turn is one more than such an integer, if
that lies between its tiny size and twice the declared one. It is also past twice the declared one, where it has passed
all bounds up to there: a lane that counts in eight bits overflows at a product of several. What is done for a few of
something else shows beside tiny dimensions, and what is done for many beside small ones. A threshold may also be one on
a product of sizes, so all dimensions together, and two of them, have as many elements as pass such an integer.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations_with_replacement, islice, zip_longest

from attrs import frozen

from ....core.task import Constants, Task
from ....core.text.named_sizes import names_in_inputs, read_sizes
from .declared_sizes import FREE_BYTES, find_growing, runs_quickly_with
from .uneven import make_uneven

_MOST_SIZES, _LEAST_OF_EACH = 6, 2
_MOST_BYTES_OF_PRODUCTS = 64 << 20
_ROUNDS = 8
"""Dimensions that reach what they may grow to leave the rest of a product to others, so often at most."""
_MOST_PARTS = 16
"""A dimension that the reference accepts in whole parts alone, as channels in groups, has one of this at most."""


def find_past_bounds(task: Task, bounds: Sequence[int], seed: int) -> tuple[Constants, ...]:
    """Return a few sets of sizes that the reference accepts, each with the dimensions that are moved first."""
    declared, draw = read_sizes(task.source), random.Random(seed)
    names = sorted(find_growing(task, few=names_in_inputs(task.source)))
    orders = [
        _Dimension(task=task, name=name, declared=declared).propose(bounds, draw)
        for name in draw.sample(names, len(names))
    ]
    most = max(_MOST_SIZES, _LEAST_OF_EACH * len(names))
    in_turns = chain.from_iterable(zip_longest(*orders, fillvalue=()))
    found = list(islice(_find_accepted(task, in_turns, FREE_BYTES), most))
    groups = [names] if len(names) > 1 else []
    groups += [sorted(draw.sample(names, 2))] if len(names) > 2 else []
    products = [_Product(task=task, names=tuple(group), declared=declared).propose(bounds) for group in groups]
    together = _find_accepted(task, chain.from_iterable(products), _MOST_BYTES_OF_PRODUCTS)
    found += [sizes for sizes in together if sizes not in found]
    return tuple(found)


def _find_accepted(task: Task, proposals: Iterable[Sequence[Constants]], most_bytes: int) -> Iterator[Constants]:
    """Yield the first accepted of each proposal's that did not come before."""
    found: list[Constants] = []
    for proposed in proposals:
        rest = (each for each in proposed if each not in found)
        accepted = next((each for each in rest if runs_quickly_with(task, each, True, most_bytes)), None)
        if accepted is not None:
            found.append(accepted)
            yield accepted


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
        parts = _find_parts(self.declared, others, self.name)
        return self._beside(others, [make_uneven(most + 1), *(most // part * part + part for part in parts)])

    def _move(self, size: int) -> tuple[Constants, ...]:
        """This size beside small ones, or beside tiny ones where it is no larger, or as many parts as that."""
        most = 2 * self.declared[self.name]
        is_small = size <= dict(self.task.small).get(self.name, 0)
        others = self.task.tiny if is_small else self.task.small
        parts = _find_parts(self.declared, others, self.name)
        return self._beside(others, [size, *(size * part for part in parts if size * part <= most)])

    def _beside(self, others: Constants, wanted: Sequence[int]) -> tuple[Constants, ...]:
        kept = tuple(pair for pair in others if pair[0] != self.name)
        return tuple(((self.name, size), *kept) for size in wanted)


@frozen(kw_only=True)
class _Product:
    """Constants of a task that grow together, while all others are tiny."""

    task: Task
    names: tuple[str, ...]
    declared: dict[str, int]

    def propose(self, bounds: Sequence[int]) -> Iterator[tuple[Constants, ...]]:
        """Yield sizes that pass a bound of the product, the largest and the least that are quick, if larger ones do."""
        larger, most = (math.prod(self._read(sizes)) for sizes in (self.task.larger, ()))
        past = [bound for bound in bounds if larger <= bound < most << len(self.names)]
        yield tuple(sizes for bound in reversed(past) for sizes in self._pass(bound))
        yield tuple(sizes for bound in past for sizes in self._pass(bound))

    def _read(self, sizes: Constants) -> list[int]:
        known = {**self.declared, **dict(sizes)}
        return [known[name] for name in self.names]

    def _pass(self, bound: int) -> Iterator[Constants]:
        """Yield sizes whose product is more than the bound, each as far from its tiny one as the others.

        Then one of them in whole parts, for where the reference accepts these alone.
        """
        sizes = dict(zip(self.names, self._read(self.task.tiny), strict=True))
        most = {name: 2 * self.declared[name] for name in self.names}
        for _ in range(_ROUNDS):
            growing = [name for name in self.names if sizes[name] < most[name]]
            ratio = (bound + 1) / math.prod(sizes.values())
            if ratio <= 1 or not growing:
                break
            sizes |= {
                name: min(most[name], make_uneven(math.ceil(sizes[name] * ratio ** (1 / len(growing)))))
                for name in growing
            }
        others = tuple(pair for pair in self.task.tiny if pair[0] not in sizes)
        yield (*sizes.items(), *others)
        for name in self.names:
            for part in _find_parts(self.declared, self.task.tiny, name):
                yield (*{**sizes, name: -(-sizes[name] // part) * part}.items(), *others)


def _find_parts(declared: dict[str, int], others: Constants, moved: str) -> list[int]:
    """Return in how many parts a dimension may have to come, by the sizes of the others."""
    sizes = {**declared, **dict(others)}
    return sorted({size for name, size in sizes.items() if name != moved and 1 < size <= _MOST_PARTS})
