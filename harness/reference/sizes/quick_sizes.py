"""Sizes for a task's three runs on the interpreter: small enough to be run whole in seconds, and not collapsed.

A ceiling on each dimension says nothing of a volume: 80 in each of four dimensions is 160 MB, and a right kernel ran
out of time on them. So ceilings come in steps, and the first is taken at which the reference's bytes and operations are
few. Where no step will do, constants are lowered one by one. A larger size is never below the small one. Nor may
a run shrink a result to one place where the declared one has many: a stride would not be seen there.

A constant may be bound to another one (heads that must divide a width) or be no size at all (a kernel width, an axis),
so a shrink is kept only where the reference still runs. What declared sizes can be (gigabytes) is never tried for real:
sizes at which the reference cannot be computed in about a second count as those at which it does not run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, islice, product

from attrs import evolve, frozen

from ....core.task import Constants, Profile, Task
from ...errors import TaskError
from .. import reference
from ..reference import call_model, fake_reference
from .declared_sizes import is_within_reach, measure, with_declared

Runs = Callable[[Task, Constants], bool]
"""Whether a task's reference runs with these constants."""

TINY, SMALL, LARGER = 7, 48, 80
"""The largest value that a shrunk size keeps; no multiple of a block, so that masks are exercised."""
_MOST_TRIALS = 60
"""A task with many constants has more subsets than anybody waits for."""
_DIVISIBLE = 12
"""By what models divide their channels: groups of three, a quarter of them, or both."""
_Shapes = tuple[tuple[int, ...], ...]

_LEAST = 8
"""Declared values below count taps, heads and groups, and are not lowered one by one."""
_WIDER = (12, 20)
"""Ceilings of the tiny run where its own lets the result collapse."""


@frozen(kw_only=True)
class _Bound:
    """What a run may take: bytes of inputs, parameters and results, and operations of products and convolutions.

    A step of a kernel's loop takes about a millisecond there, and a convolution that is written as loops has one for
    every tap of every block.
    """

    num_bytes: float
    num_flops: float

    def cost(self, task: Task, sizes: Constants) -> float:
        """1 or less where the reference keeps within the bound; infinite where it does not run."""
        try:
            num_bytes, num_flops = measure(with_declared(task, sizes))
        except TaskError:
            return float("inf")
        return max(num_bytes / self.num_bytes, num_flops / self.num_flops)


_SMALL_BOUND = _Bound(num_bytes=1 << 20, num_flops=3e5)
_LARGER_BOUND = _Bound(num_bytes=4 << 20, num_flops=1.5e6)
_STEPS = ((TINY, SMALL, LARGER), (TINY, 24, 40), (TINY, 12, 20), (5, 7, 10))
_LOWER_TINY, _LOWER_SMALL, _LOWER_LARGER = (4,), (24, 12, 7, 6, 4), (48, 36, 24, 20, 14, 10, 8, 6)
"""None is one past a block: those sizes are the remainders' (`core.task`), which would have to look for larger ones."""


def with_quick_sizes(task: Task, constants: dict[str, int]) -> Task:
    """The task with sizes for the tiny, small and larger runs, as far as its reference allows."""
    if not constants:
        return task
    declared = _shapes(task, ())
    best, least, skipped = task, float("inf"), list[Sequence[int]]()
    for step in _STEPS:
        if step != _STEPS[-1] and _is_heavy(task, constants, step):
            skipped.append(step)
            continue
        sized = _with_step(task, constants, step, declared)
        cost = _cost(sized, declared)
        if cost < least:
            best, least = sized, cost
        if cost <= 1:
            break
    while least == float("inf") and skipped:
        # too much for all constants, and few of them may have to be so large
        sized = _with_step(task, constants, skipped.pop(), declared)
        best, least = sized, _cost(sized, declared)
    return _lightened(best, constants, declared)


def _cost(task: Task, declared: _Shapes) -> float:
    """By what a task's small and larger runs exceed their bounds, infinite where a result has collapsed."""
    if any(_has_collapsed(declared, _shapes(task, sizes)) for sizes in (task.small, task.larger)):
        return float("inf")
    return max(_SMALL_BOUND.cost(task, task.small), _LARGER_BOUND.cost(task, task.larger))


def _is_heavy(task: Task, constants: dict[str, int], step: Sequence[int]) -> bool:
    """Whether all constants at the step's ceilings are known to be too much, without running anything for it."""
    for ceiling, bound in ((step[1], _SMALL_BOUND), (step[2], _LARGER_BOUND)):
        sizes = tuple((name, min(value, ceiling)) for name, value in constants.items())
        if 1 < bound.cost(task, sizes) < float("inf"):
            return True
    return False


def _with_step(task: Task, constants: dict[str, int], step: Sequence[int], declared: _Shapes) -> Task:
    small = shrink(task, constants, step[1])
    return evolve(
        task,
        tiny=_find_tiny(task, constants, step[0], declared),
        small=small,
        larger=_find_larger(task, constants, small, step[2]),
    )


def _find_tiny(task: Task, constants: dict[str, int], ceiling: int, declared: _Shapes) -> Constants:
    """The sizes at the ceiling, or at a wider one where the reference refuses that, or collapses there."""
    found: list[tuple[float, int, Constants]] = []
    for wider in (ceiling, *_WIDER):
        sizes = shrink(task, constants, wider)
        has_collapsed = _has_collapsed(declared, _shapes(task, sizes))
        cost = float("inf") if has_collapsed else _SMALL_BOUND.cost(task, sizes)
        if cost <= 1:
            return sizes
        found.append((cost, wider, sizes))
    return min(found)[-1]


def _find_larger(task: Task, constants: dict[str, int], small: Constants, ceiling: int) -> Constants:
    """Sizes of which none is below the small one, and some above."""
    least = {**constants, **dict(small)}

    def runs(task: Task, sizes: Constants) -> bool:
        merged = {**constants, **dict(sizes)}
        is_larger = merged != least and all(merged[name] >= size for name, size in least.items())
        return is_larger and runs_with(task, sizes)

    return shrink(task, constants, ceiling, runs)


def _lightened(task: Task, constants: dict[str, int], declared: _Shapes) -> Task:
    def lower(sizes: Constants, bound: _Bound, levels: Sequence[int], least: dict[str, int]) -> Constants:
        """The sizes with constants lowered one by one until the bound is kept or nothing helps."""
        kept, cost = dict(sizes), bound.cost(task, sizes)
        names = [name for name, value in constants.items() if value >= _LEAST]
        for level, name in product(levels, names):
            if cost <= 1:
                break
            if not least[name] < level < kept.get(name, constants[name]):
                continue
            trial = tuple({**kept, name: level}.items())
            lowered = bound.cost(task, trial)
            if lowered < cost and not _has_collapsed(declared, _shapes(task, trial)) and runs_with(task, trial):
                kept, cost = dict(trial), lowered
        return tuple(kept.items())

    nothing = dict.fromkeys(constants, 0)
    tiny = lower(task.tiny, _SMALL_BOUND, _LOWER_TINY, nothing)
    small = lower(task.small, _SMALL_BOUND, _LOWER_SMALL, nothing)
    larger = lower(task.larger, _LARGER_BOUND, _LOWER_LARGER, {**constants, **dict(small)})
    return evolve(task, tiny=tiny, small=small, larger=larger)


def _shapes(task: Task, sizes: Constants) -> _Shapes:
    """The shapes of the results, none where the reference does not run."""
    try:
        with fake_reference(with_declared(task, sizes), Profile.DECLARED, task.dtypes[0]) as (model, inputs):
            return tuple(tuple(output.shape) for output in call_model(task, model, inputs))
    except TaskError:
        return ()


def _has_collapsed(declared: _Shapes, found: _Shapes) -> bool:
    """Whether a dimension of a result that has many places when it is declared has one."""
    return any(
        len(wanted) == len(given) and any(one == 1 < many for many, one in zip(wanted, given, strict=True))
        for wanted, given in zip(declared, found, strict=False)
    )


def with_small_sizes(
    task: Task, constants: dict[str, int], ceilings: tuple[int, int, int] = (TINY, SMALL, LARGER)
) -> Task:
    """The task with sizes for the tiny, small and larger runs, none above its ceiling where the reference allows it."""
    tiny, small, larger = (shrink(task, constants, ceiling) for ceiling in ceilings)
    return evolve(task, tiny=tiny, small=small, larger=larger)


def runs_with(task: Task, constants: Constants) -> bool:
    """Whether the reference runs with these constants, in about a second at the most."""
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
