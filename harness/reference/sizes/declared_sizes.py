"""Which declared sizes the judge can compute, and which sizes beyond them a task's reference accepts.

A kernel may take its shortcut at just the sizes that are declared: no mask where the declared size is a multiple of
the block, one block that holds the declared row. So the audit looks at a size beyond them too: past the next power of
two in as many constants as that at most doubles the work, and a little beyond elsewhere. No such size nearly consists
of whole blocks: what is left out of an incomplete block is then enough to be seen. Constants move as they did for the
variant "remainder", where the reference was run with real values; here it is run once more. Nor does a shortcut have
to begin or end at sizes that anybody has named, so another size is drawn below the declared ones.
"""

from __future__ import annotations

import random
from collections.abc import Container, Iterable, Iterator, Sequence

import torch
from attrs import evolve

from ....core.task import Constants, Profile, Task
from ....core.text.named_sizes import read_sizes, with_constants
from ....stages.roofline import EagerOperator
from ...errors import TaskError
from ..operators import trace_declared, trace_operators
from ..reference import call_model, fake_reference, runs_with
from .uneven import make_uneven

MOST_BYTES = 256 << 20
"""At the peak (`measure_peak`), which the judge can follow."""
_MOST_FLOPS = 5e10
_MOST_WORK_BYTES = 1 << 30
"""Read and written by the reference's operators. A right plan that fuses none of them takes half of it, which any plan
may take that is sampled."""
_MOST_GROWTH, LEAST_GROWTH = 2.2, 1.1
"""Of sizes beyond the declared ones: of what is affordable, and of what takes more than that already."""
_QUICK_BYTES, _QUICK_FLOPS = 32 << 20, 1e10
"""At such declared sizes all variants are run on a GPU: their inputs are drawn and transformed by a processor."""
FREE_BYTES, _FREE_FLOPS = 4 << 20, 1e8
"""So much is quick whatever the declared sizes take."""
_FREE_LENGTH = 1 << 13
"""So many elements a program may go through, one after the other, in a second or two of the interpreter."""
_STEP = 13
_PARTS = (0.25, 0.75)
"""Of the way from the larger sizes to the declared ones: what lies near either end has a size that is run beside it."""
_PARTS_OF_ONE = (0.1, 0.5)
_PARTS_IN_REACH = tuple(1.0 - number / 32 for number in range(1, 32))
"""Of the way, where the declared sizes are out of reach."""
_TINY_BYTES, _TINY_FLOPS = 1 << 18, 1.5e6
PAST_BLOCK, PAST_BLOCK_OF_A_PRODUCT, PAST_ROWS = 1025, 1027, 129
"""One more than the largest usual block of elements, and of rows, each of which may be a program of its own.

A product with a single row may have a last factor near zero, with which a block that is left out does not show: three
are not.
"""
_MOST_OF_ONE_BLOCK = 512
"""Declared sizes up to this may move past the power of two that holds them where all else is small."""
_LEAST_SIZE, _LEAST_OF_FEW = 16, 8
"""Smaller constants count heads, taps and groups, which no block holds; those of inputs' shapes count channels too."""


def is_within_reach(task: Task) -> bool:
    """Whether the reference can be computed at the declared sizes in about a second."""
    num_bytes, num_flops = measure_peak(task)
    return num_bytes <= MOST_BYTES and num_flops <= _MOST_FLOPS


def _can_be_followed(task: Task) -> bool:
    """Whether a plan can be held here, too, that keeps all that the reference's operators return."""
    return is_within_reach(task) and measure_work(trace_operators(task)) <= _MOST_WORK_BYTES


def measure_work(operators: Sequence[EagerOperator]) -> int:
    """Return the bytes that operators read and write."""
    return sum(operator.num_bytes for operator in operators)


def is_quick(task: Task) -> bool:
    """Whether a GPU's verifier can afford the declared sizes for every variant."""
    num_bytes, num_flops = measure_peak(task)
    return num_bytes <= _QUICK_BYTES and num_flops <= _QUICK_FLOPS


def with_declared(task: Task, constants: Constants) -> Task:
    """The task with other declared sizes."""
    return evolve(task, source=with_constants(task.source, constants))


def find_beyond(task: Task, movable: Constants) -> Constants:
    """Sizes beyond the declared ones for constants that can be moved, or none.

    Where the declared sizes are out of reach, none can be: those that `find_between` does not keep are kept.
    """
    if not is_within_reach(task):
        return _find_reached(task, movable, keeps_largest=False)
    sizes = find_growing(task, movable)
    return next((found for found, _ in _find_affordable(task, _propose(sizes))), ()) if sizes else ()


def find_growing(task: Task, movable: Constants = (), few: Container[str] = ()) -> dict[str, int]:
    """Return the declared sizes of what may grow, which may be `few`: what may be moved, and batches as small ones."""
    declared = read_sizes(task.source)
    names = dict.fromkeys(name for name, _ in (*movable, *task.tiny))
    least = {name: _LEAST_OF_FEW if name in few else _LEAST_SIZE for name in names}
    return {name: declared[name] for name in names if declared.get(name, 0) >= least[name]}


def _find_affordable(task: Task, proposals: Iterable[Constants]) -> Iterator[tuple[Constants, Sequence[EagerOperator]]]:
    """Yield the sizes that take about twice what the declared ones do, or little, and that the reference accepts.

    With each come the reference's operators there. A plan that keeps all that these return can be held, or nearly where
    it holds the declared ones.
    """
    declared, num_bytes = trace_declared(task)
    num_bytes, num_flops = _find_peak(declared, num_bytes)
    most_work = max(_MOST_WORK_BYTES, LEAST_GROWTH * measure_work(declared))
    most_bytes = min(MOST_BYTES, max(FREE_BYTES, _MOST_GROWTH * num_bytes))
    most_flops = min(_MOST_FLOPS, max(_FREE_FLOPS, _MOST_GROWTH * num_flops))
    for proposal in proposals:
        try:
            operators, num_bytes = trace_declared(with_declared(task, proposal))
        except TaskError:
            continue
        num_bytes, num_flops = _find_peak(operators, num_bytes)
        is_affordable = num_bytes <= most_bytes and num_flops <= most_flops
        if is_affordable and measure_work(operators) <= most_work and runs_with(task, proposal):
            yield proposal, operators


def find_between(task: Task, movable: Constants, seed: int) -> Constants:
    """Sizes between the largest that is run whole and the declared ones, by the judge's draw; none without room.

    All constants go the same part of their way, on a logarithmic scale: a kernel that does nothing within a window of
    sizes is met always where that holds the middle half of the way, else as often as its share of that half. Where the
    declared sizes are out of reach, the largest is kept, and the others go as far as the judge can follow.
    """
    if not is_within_reach(task):
        return _find_reached(task, movable, keeps_largest=True)
    ways = _find_ways(task, movable)
    part = random.Random(seed).uniform(*_PARTS)
    drawn = {name: make_uneven(round(low * (high / low) ** part)) for name, (low, high) in ways.items()}
    by_room = sorted(drawn, key=lambda name: ways[name][0] / ways[name][1])
    for proposal in (tuple(drawn.items()), *(((name, drawn[name]),) for name in by_room)):
        if proposal and runs_with(task, proposal):
            return proposal
    return ()


def find_single_sizes(task: Task, movable: Constants, seed: int, most: int) -> tuple[Constants, ...]:
    """Some constants in a drawn order, each less than declared while all others are as declared; none if alone.

    Sizes of other profiles move together, so that what is done for one size as declared would show nowhere. Each lies
    in the lower half of its way, where the reference is quick. Where the declared sizes are out of reach, what
    `find_between` keeps is as declared beside others that are not.
    """
    ways = _find_ways(task, movable)
    if len(ways) < 2 or not is_within_reach(task):
        return ()
    draw, found = random.Random(seed), list[Constants]()
    for name in draw.sample(sorted(ways), len(ways)):
        low, high = ways[name]
        proposal = ((name, make_uneven(round(low * (high / low) ** draw.uniform(*_PARTS_OF_ONE)))),)
        if len(found) < most and runs_with(task, proposal):
            found.append(proposal)
    return tuple(found)


def find_twice(task: Task, movable: Constants, seed: int) -> Constants:
    """More than twice its declared size for one constant by the judge's draw, while all others are as declared.

    None where programs would go through many more elements, one after the other. A grid that ends somewhere, and what
    is done where there is much, show there.
    """
    if not is_within_reach(task):
        return ()
    sizes = find_growing(task, movable)
    names = random.Random(seed).sample(sorted(sizes), len(sizes))
    proposals = (((name, make_uneven(2 * sizes[name] + 1)),) for name in names)
    longest = max(_FREE_LENGTH, _measure_length(trace_operators(task)))
    affordable = _find_affordable(task, proposals)
    return next((sizes for sizes, operators in affordable if _measure_length(operators) <= longest), ())


def _measure_length(operators: Sequence[EagerOperator]) -> int:
    """Return of how many elements, one after the other, a program makes one of each operator's."""
    return sum(operator.num_along for operator in operators)


def find_whole_blocks(task: Task, movable: Constants) -> Constants:
    """Powers of two that hold the declared sizes, larger ones cut to one that is quick; none where they are declared.

    All other sizes are uneven, so that what is wrong of whole blocks alone, or of equal sizes, would show nowhere.
    """
    declared = read_sizes(task.source)
    powers = {
        name: 1 << (declared[name] - 1).bit_length() for name, _ in movable if declared.get(name, 0) >= _LEAST_SIZE
    }
    most = max(powers.values(), default=0)
    while most >= _LEAST_SIZE:
        proposal = {name: min(power, most) for name, power in powers.items()}
        most //= 2
        if runs_quickly_with(task, tuple(proposal.items())):
            is_declared = all(declared[name] == size for name, size in proposal.items())
            return () if is_declared else tuple(proposal.items())
    return ()


def runs_quickly_with(task: Task, sizes: Constants, is_short: bool = False, most_bytes: int = FREE_BYTES) -> bool:
    """Whether the reference accepts sizes that are quick whatever the declared ones take.

    With `is_short`, no program goes through many elements of a product either.
    """
    try:
        operators, num_bytes = trace_declared(with_declared(task, sizes))
    except TaskError:
        return False
    is_quick = num_bytes <= most_bytes and _count_flops(operators) <= _FREE_FLOPS
    length = _measure_length([operator for operator in operators if operator.matmul_flops]) if is_short else 0
    return is_quick and length <= _FREE_LENGTH and runs_with(task, sizes)


def _find_ways(task: Task, movable: Constants) -> dict[str, tuple[int, int]]:
    """Return the largest size that is run whole, and the declared one, of constants that have room between."""
    declared, larger = read_sizes(task.source), dict(task.larger)
    ways = {name: (larger[name], declared[name]) for name, _ in movable if name in larger and name in declared}
    return {name: way for name, way in ways.items() if _LEAST_SIZE <= 2 * way[0] < way[1]}


def _find_reached(task: Task, movable: Constants, keeps_largest: bool) -> Constants:
    """Return sizes as near to the declared ones as the judge can follow: some as declared, so that each is met.

    The largest is kept or all but it; where there is no other, or none that the judge can follow, all go equally far.
    """
    ways = _find_ways(task, movable)
    largest = max(ways, key=lambda name: ways[name][1], default="")
    kept = {largest} if keeps_largest else {*ways} - {largest}
    for moved in ({*ways} - kept, {*ways} if keeps_largest else set()):
        for part in _PARTS_IN_REACH if moved else ():
            sizes = {
                name: make_uneven(round(low * (high / low) ** part))
                for name, (low, high) in ways.items()
                if name in moved
            }
            proposal = tuple(sizes.items())
            try:
                is_reached = _can_be_followed(with_declared(task, proposal))
            except TaskError:  # sizes that the reference refuses, such as channels that no longer make whole groups
                continue
            if is_reached and runs_with(task, proposal):
                return proposal
    return ()


def _propose(sizes: dict[str, int]) -> Iterator[Constants]:
    """All sizes far beyond, then each of them alone, the largest first; then all a little beyond, and each alone."""
    by_size = sorted(sizes, key=lambda name: -sizes[name])
    near = {name: make_uneven(size + (_STEP if size >= 8 * _STEP else 1)) for name, size in sizes.items()}
    far = {name: make_uneven((1 << (size - 1).bit_length()) + _STEP) for name, size in sizes.items()}
    yield tuple(far.items())
    for name in by_size:
        yield tuple({**near, name: far[name]}.items())
    for name in by_size:
        yield ((name, far[name]),)
    yield tuple(near.items())
    for name in by_size:
        yield ((name, near[name]),)


def measure(task: Task) -> tuple[float, float]:
    """Bytes of inputs, parameters and results at the declared sizes, and operations of matrix products."""
    operators, num_bytes = trace_declared(task)
    return num_bytes, _count_flops(operators)


def measure_peak(task: Task) -> tuple[float, float]:
    """Bytes of inputs, parameters and results, or half of what one operator reads and writes, and products' operations.

    What is made on the way may be hundreds of times as large as what is given and returned.
    """
    return _find_peak(*trace_declared(task))


def _find_peak(operators: Sequence[EagerOperator], num_bytes: float) -> tuple[float, float]:
    largest = max((operator.num_bytes / 2 for operator in operators), default=0.0)
    return max(num_bytes, largest), _count_flops(operators)


def _count_flops(operators: Sequence[EagerOperator]) -> float:
    return float(sum(operator.matmul_flops for operator in operators))


def accepted_remainders(task: Task) -> Constants:
    """All of the rule's sizes at once where the reference runs with them, else one after the other.

    Those of small declared sizes, as of heads' dimensions, then lie past the power of two that holds these, as far as
    that is quick: beyond the declared sizes a larger constant may be the one that moves so far.
    """
    kept = dict(task.constants(Profile.REMAINDER))
    if kept and not runs_with(task, _at_small(task, kept)):
        proposed, kept = kept, {}
        for name, size in proposed.items():
            if runs_with(task, _at_small(task, {**kept, name: size})):
                kept[name] = size
    declared = read_sizes(task.source)
    for name in sorted(kept, key=lambda name: declared.get(name, 0)):
        if max(_LEAST_SIZE, kept[name]) <= declared.get(name, 0) <= _MOST_OF_ONE_BLOCK:
            moved = {**kept, name: (1 << (declared[name] - 1).bit_length()) + 1}
            if _is_tiny(task, moved) and runs_with(task, _at_small(task, moved)):
                kept = moved
    return tuple(kept.items())


def _is_tiny(task: Task, sizes: dict[str, int]) -> bool:
    """Whether the interpreter runs all of the reference's work at small sizes and these in no time."""
    try:
        num_bytes, num_flops = measure(with_declared(task, tuple({**dict(task.small), **sizes}.items())))
    except TaskError:
        return False
    return num_bytes <= _TINY_BYTES and num_flops <= _TINY_FLOPS


def find_batch_of_one(task: Task, movable: Constants) -> Constants:
    """One for the constant that is the leading dimension of the first input with several; none where there is no such.

    No size of another profile is one: each keeps a result from collapsing.
    """
    if _leading_size(task, {}) == 1:
        return ()
    for name, _ in movable:
        if _leading_size(task, {name: 1}) == 1 and all(
            runs_with(task, tuple({**dict(sizes), name: 1}.items())) for sizes in (task.tiny, task.small)
        ):
            return ((name, 1),)
    return ()


def find_inner_one(task: Task, movable: Constants, seed: int) -> Constants:
    """One for a constant by the judge's draw; none where the reference refuses that of all."""
    names = sorted(name for name, _ in movable)
    for name in random.Random(seed).sample(names, len(names)):
        if runs_with(task, _at_small(task, {name: 1})):
            return ((name, 1),)
    return ()


def find_past_block(task: Task, movable: Constants, sizes: Constants, size: int, seed: int) -> Constants:
    """This size for a constant by the judge's draw, beside these others; none where that is not quick.

    A grid or a loop that counts a block too few where the last one has a single element shows there.
    """
    names = sorted(name for name, _ in movable if name not in dict(sizes))
    for name in random.Random(seed).sample(names, len(names)):
        moved = {**dict(sizes), name: size}
        if _is_tiny(task, moved) and runs_with(task, _at_small(task, moved)):
            return ((name, size),)
    return ()


def find_inner_axes(task: Task, movable: Constants) -> tuple[tuple[str, int], ...]:
    """The two axes that a product adds over, each as an input's position or a parameter's name, and a number.

    One size decides both, and no result's shape follows from it.
    """
    before, results = _shapes_with(task, {})
    for name, size in movable:
        after, others = _shapes_with(task, {name: size})
        if others != results or [*map(len, before.values())] != [*map(len, after.values())]:
            continue
        pairs = [(place, axis) for place, shape in before.items() for axis in range(len(shape))]
        axes = tuple((place, axis) for place, axis in pairs if before[place][axis] != after[place][axis])
        places, lengths = {place for place, _ in axes}, {before[place][axis] for place, axis in axes}
        if len(axes) == len(places) == 2 and len(lengths) == 1:
            return axes
    return ()


def _shapes_with(task: Task, sizes: dict[str, int]) -> tuple[dict[str, torch.Size], list[torch.Size]]:
    """Return shapes of inputs and parameters, and of results, at small sizes and these; none where it is refused."""
    try:
        sized = with_declared(task, _at_small(task, sizes))
        with fake_reference(sized, Profile.DECLARED, task.dtypes[0]) as (model, inputs):
            given = {str(at): each for at, each in enumerate(inputs)} | model.state_dict()
            results = [result.shape for result in call_model(sized, model, inputs)]
            return {place: each.shape for place, each in given.items() if isinstance(each, torch.Tensor)}, results
    except TaskError:
        return {}, []


def _leading_size(task: Task, sizes: dict[str, int]) -> int:
    """Return the leading dimension of the first input with several at small sizes and these; 0 where there is none."""
    try:
        sized = with_declared(task, _at_small(task, sizes))
        with fake_reference(sized, Profile.DECLARED, task.dtypes[0]) as (_, inputs):
            return next((each.shape[0] for each in inputs if isinstance(each, torch.Tensor) and each.ndim > 1), 0)
    except TaskError:
        return 0


def _at_small(task: Task, sizes: dict[str, int]) -> Constants:
    """Return the small sizes, and these in the place of theirs."""
    return tuple({**dict(task.small), **sizes}.items())
