"""All mutants of a teacher, and a sample in which every class of mistake has its share.

A mutant differs from the teacher in one place and is valid Python that says something else. Whether it is wrong is for
an oracle to decide: some edits change nothing (a mask too wide where nothing is masked), and those teach nothing.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator, Sequence

from attrs import frozen

from .memory import (
    mutate_accumulators,
    mutate_arguments,
    mutate_blocks,
    mutate_dtypes,
    mutate_grids,
    mutate_masks,
    mutate_offsets,
    mutate_parameters,
)
from .program import Edit, MutationClass, Program
from .values import mutate_arithmetic, mutate_axes, mutate_comparisons, mutate_constants, mutate_functions, mutate_steps

_OPERATORS: tuple[Callable[[Program], Iterator[Edit]], ...] = (
    mutate_arithmetic,
    mutate_comparisons,
    mutate_constants,
    mutate_masks,
    mutate_offsets,
    mutate_blocks,
    mutate_accumulators,
    mutate_dtypes,
    mutate_steps,
    mutate_functions,
    mutate_axes,
    mutate_grids,
    mutate_arguments,
    mutate_parameters,
)


@frozen(kw_only=True)
class Mutant:
    """A source with one mistake: its class, what was done, in which line (from 1), and the text before and after."""

    kind: MutationClass
    change: str
    line: int
    before: str
    after: str
    source: str


def enumerate_mutants(source: str) -> tuple[Mutant, ...]:
    """Return every mutant of a module by class, then by place; raises SyntaxError for a source that is no module."""
    program = Program(source)
    original = ast.dump(program.tree)
    seen = {source}
    mutants = []
    for operator in _OPERATORS:
        for edit in operator(program):
            mutant = _apply(source, edit)
            if mutant.source not in seen and _says_something_else(mutant.source, original):
                seen.add(mutant.source)
                mutants.append(mutant)
    return tuple(mutants)


def _apply(source: str, edit: Edit) -> Mutant:
    return Mutant(
        kind=edit.kind,
        change=edit.change,
        line=source.count("\n", 0, edit.start) + 1,
        before=source[edit.start : edit.stop],
        after=edit.text,
        source=source[: edit.start] + edit.text + source[edit.stop :],
    )


def _says_something_else(source: str, original: str) -> bool:
    try:
        return ast.dump(ast.parse(source)) != original
    except SyntaxError:
        return False


def sample_mutants(mutants: Sequence[Mutant], count: int, seed: int) -> tuple[Mutant, ...]:
    """Return at most `count` of the mutants, one of each class in turn, in an order that the seed decides."""
    rng = random.Random(seed)
    by_class: dict[MutationClass, list[Mutant]] = {}
    for mutant in mutants:
        by_class.setdefault(mutant.kind, []).append(mutant)
    queues = [sorted(group, key=lambda _: rng.random()) for group in by_class.values()]
    queues.sort(key=lambda _: rng.random())
    chosen: list[Mutant] = []
    while len(chosen) < count and any(queues):
        for queue in queues:
            if queue and len(chosen) < count:
                chosen.append(queue.pop())
    return tuple(chosen)
