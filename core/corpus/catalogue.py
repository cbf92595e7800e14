"""The catalogue: families by level, rendering by id, and splits that share no task.

A task's split comes from a hash of what it computes, not of how it is worded. At Level 1 that is the function, its
numbers and its sizes; at Level 2 it is the chain of operations alone, so a held-out Level 2 task is a composition
that no training task has, at any size. `novelty` says which held-out tasks no training task equals in any wording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attrs import evolve

from ..task import NAMED, TASK_ID, Example, Split, Task
from . import novelty
from .builder.draw import MASK_64, Draw, digest, mix
from .builder.spec import Spec
from .composition.program import ProgramSpec
from .composition.writing import write_task
from .open_tasks.membership import find_operations, is_marked
from .registry import FAMILIES, SURFACES, TABLE, TAUGHT
from .surfaces.program import has_same_interface
from .surfaces.surface import draw_dialect, write_surface, write_task_surface

_ONE_STYLE = 22
"""The seed of the style that older families' answers have in suites of surfaces."""
_MOST_WORDINGS = 5
"""How many references are written until one has that style's interface."""


def is_corpus_id(task_id: str) -> bool:
    """Return whether the id, or name, is that of a task of this corpus."""
    match = TASK_ID.fullmatch(NAMED.get(task_id, task_id))
    return match is not None and _is_family(match[2], int(match[1]))


def _is_family(name: str, level: int) -> bool:
    family = TABLE.get(_split_name(name)[1])
    return family is not None and family.level == level


def _split_name(name: str) -> tuple[str, str]:
    """Return the suite of surfaces that a family's name begins with, if any, and the family's own name."""
    if name in TABLE:
        return "", name
    suite, _, own = name.partition("_")
    return (suite, own) if suite in SURFACES else ("", name)


def _parse(task_id: str) -> tuple[str, int]:
    match = TASK_ID.fullmatch(task_id)
    if match is None or not _is_family(match[2], int(match[1])):
        raise ValueError(f"no task of the corpus: {task_id!r}")
    return match[2], int(match[3], 16)


def _draw_spec(name: str, seed: int) -> Spec:
    _, own = _split_name(name)
    return TABLE[own].draw_spec(Draw(seed), own)


def _write(spec: Spec, task_id: str, name: str, seed: int) -> Example:
    write = TABLE[spec.family].write
    if write is None:
        raise ValueError(f"{task_id} has no teacher: the suite open is for reinforcement learning alone")
    suite, _ = _split_name(name)
    is_older = TABLE[spec.family].part < 4
    example = write(spec, task_id, _draw_wording(_ONE_STYLE if suite and is_older else seed))
    if not suite:
        return example
    if is_older:
        # an answer's style is no part of a surface: what no prompt tells, a policy can only guess
        drawn = (write(spec, task_id, _draw_wording(seed + turn)).task for turn in range(_MOST_WORDINGS))
        task = next((task for task in drawn if has_same_interface(task.source, example.task.source)), example.task)
        example = evolve(example, task=task)
    draw = _draw_surface(seed)
    return write_surface(example, draw_dialect(draw, SURFACES[suite]), draw)


def _draw_wording(seed: int) -> Draw:
    # names and style come from a stream of their own, so that new wordings leave the tasks as they are
    return Draw(mix(seed ^ 0x5DEECE66D))


def _draw_surface(seed: int) -> Draw:
    return Draw(mix(seed ^ 0x2545F4914F6CDD1D))


def _write_task(spec: Spec, task_id: str, name: str, seed: int) -> Task:
    if TABLE[spec.family].write is not None:
        return _write(spec, task_id, name, seed).task
    draw = _draw_surface(seed)
    return write_task_surface(write_task(spec, task_id, _draw_wording(seed)), draw_dialect(draw, False), draw)


def has_teacher(name: str) -> bool:
    """Return whether a suite, or the task with that id, has teachers' solutions."""
    match = TASK_ID.fullmatch(NAMED.get(name, name))
    if match is None:
        return name not in TAUGHT
    family = TABLE.get(_split_name(match[2])[1])
    return family is not None and family.write is not None


def render(task_id: str) -> Example:
    """Render the example of an id, such as "l1-softmax-00c0ffee12345678", or a name.

    Raises ValueError for others, and for a task without a teacher.
    """
    task_id = NAMED.get(task_id, task_id)
    name, seed = _parse(task_id)
    return _write(_draw_spec(name, seed), task_id, name, seed)


def render_task(task_id: str) -> Task:
    """Render the task of an id or a name, which need not have a teacher; raises ValueError for others."""
    task_id = NAMED.get(task_id, task_id)
    name, seed = _parse(task_id)
    return _write_task(_draw_spec(name, seed), task_id, name, seed)


def _split_program(spec: ProgramSpec) -> Split:
    """Split a composed task: what an older family may hold out of training is held out here too."""
    if is_marked(spec):
        return _split_marked(find_operations(spec))
    if spec.level == 1:
        return Split.HELDOUT if novelty.is_reserved_operator(spec) else _split_composition(spec.identity)
    if spec.level == 3:
        # networks of a kind are few, and their sizes many
        return _split_composition(spec.identity)
    own = _split_composition(("composed", *novelty.normalize(spec)))
    if own is not Split.TRAIN or novelty.goes_on(spec):
        return own
    if novelty.has_tail(spec):
        return Split.HELDOUT
    older = (composition for old in novelty.find_older(spec) for composition in novelty.find_kin(old))
    return own if all(_split_composition(found) is Split.TRAIN for found in older) else Split.HELDOUT


def _split(spec: Spec) -> Split:
    if isinstance(spec, ProgramSpec):
        return _split_program(spec)
    return Split.HELDOUT if novelty.is_reserved(spec) else _split_composition(spec.composition)


def _split_composition(composition: tuple[object, ...]) -> Split:
    percent = digest(composition) % 100
    if percent < 90:
        return Split.TRAIN
    return Split.VALIDATION if percent < 95 else Split.HELDOUT


def _split_marked(operations: tuple[str, ...]) -> Split:
    """Split what has a mark: compositions of two operations are few, so more of them are held out."""
    percent = digest(("open", *operations)) % 100
    if percent < 70:
        return Split.TRAIN
    return Split.VALIDATION if percent < 80 else Split.HELDOUT


def split_of(task: Task) -> Split:
    """Return the split that a task of the corpus belongs to; raises ValueError for a task of another suite."""
    return _split(_draw_spec(*_parse(task.task_id)))


def is_novel(task: Task) -> bool:
    """Return whether no training task of the corpus equals this one; raises ValueError for a task of another suite."""
    return _is_novel(_draw_spec(*_parse(task.task_id)))


def _is_novel(spec: Spec) -> bool:
    if isinstance(spec, ProgramSpec):
        if is_marked(spec):
            return _split(spec) is Split.HELDOUT
        if spec.level == 1:
            return novelty.is_reserved_operator(spec) and not novelty.has_usual_form(spec)
        return (
            spec.level == 2
            and _split(spec) is Split.HELDOUT
            and novelty.goes_on(spec)
            and not novelty.has_usual_form(spec)
        )
    if spec.level == 1:
        return novelty.is_reserved(spec)
    own = _split(spec) is Split.HELDOUT
    return own and all(_split_composition(composition) is not Split.TRAIN for composition in novelty.find_kin(spec))


def examples(split: Split, level: int, seed: int, families: Sequence[str] | None = None) -> Iterator[Example]:
    """Yield distinct examples of a split and level without end, families in turn; the same for the same seed.

    Where no families are named they are the first part's. Raises ValueError where one has no teacher.
    """
    return (_write(*drawn) for drawn in _stream(level, seed, families, lambda spec: _split(spec) is split))


def tasks(split: Split, level: int, seed: int, families: Sequence[str] | None = None) -> Iterator[Task]:
    """Yield the tasks that `examples` has, and those of families without teachers."""
    return (_write_task(*drawn) for drawn in _stream(level, seed, families, lambda spec: _split(spec) is split))


def example_ids(split: Split, level: int, seed: int, families: Sequence[str] | None = None) -> Iterator[str]:
    """Yield the ids of `examples`, which `render` writes: most of an example's time is its writing."""
    drawn = _stream(level, seed, families, lambda spec: _split(spec) is split)
    return (task_id for _, task_id, _, _ in drawn)


def novel_examples(level: int, seed: int, families: Sequence[str] | None = None) -> Iterator[Example]:
    """Return distinct held-out examples that no training task equals, as `examples` gives them.

    None at Level 1 where no family has a reserved structure, as in the first part, and none at Level 3.
    """
    chosen = [
        name
        for name in (FAMILIES[level] if families is None else families)
        if level == 2 or _split_name(name)[1] in (*novelty.RESERVED, *novelty.OPERATORS_WITH_RESERVED)
    ]
    return (_write(*drawn) for drawn in _stream(level, seed, chosen, _is_novel)) if chosen else iter(())


def _stream(
    level: int, seed: int, families: Sequence[str] | None, is_wanted: Callable[[Spec], bool]
) -> Iterator[tuple[Spec, str, str, int]]:
    """Yield what `_write` takes: a spec, its id, its family's name and its seed."""
    chosen = tuple(families) if families is not None else FAMILIES[level]
    unknown = [name for name in chosen if not _is_family(name, level)]
    if unknown or not chosen:
        raise ValueError(f"no family of level {level}: {', '.join(unknown) or '(none given)'}")
    # a family's stream is the same in all suites: they have the same tasks in different words
    streams = {name: Draw(digest((seed, level, _split_name(name)[1]))) for name in chosen}
    seen: set[int] = set()
    while True:
        for name in chosen:
            while True:
                render_seed = streams[name].bits() & MASK_64
                spec = _draw_spec(name, render_seed)
                if is_wanted(spec) and (identity := digest(spec.identity)) not in seen:
                    break
            seen.add(identity)
            yield spec, f"l{level}-{name}-{render_seed:016x}", name, render_seed
