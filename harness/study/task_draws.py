"""Which tasks the cells of a seed train on and are evaluated by, and when: the same in all of them."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar

import numpy as np
from attrs import evolve

from ...core.config import Config
from ...core.corpus import SUITES, TAUGHT, Split, example_ids, examples, render, tasks
from ...core.corpus.launches import draw_launches
from ...core.recipe.curriculum import CurriculumState, draw_families, draw_slots
from ...core.seeds import derive
from ...core.task import Example, Task
from ..errors import UsageError

Admits = Callable[[Task], bool]
"""Whether training may use a task (`harness.study.contamination`)."""

Drawn = TypeVar("Drawn", Task, Example)

RENDERED_ASIDE = 2000
"""From so many examples on, processes that write them are worth their start."""

MOST_REFUSED = 100
"""Draws in a row of which none may be used: the family is taken to have no task that training may use."""


def root_seed(config: Config, seed: int) -> int:
    """The root of all random streams of the grid's seed number `seed`."""
    return derive(config.seed, "grid seed", seed)


def evaluation_tasks(config: Config) -> tuple[Task, ...]:
    """The held-out tasks by which every cell of a run is judged, balanced over families."""
    counts = {1: config.evaluation.level1_tasks, 2: config.evaluation.level2_tasks}
    return tuple(
        task
        for level, number in counts.items()
        for task in islice(
            tasks(Split.HELDOUT, level, derive(config.seed, "evaluation", level), SUITES[config.suite][level]),
            number,
        )
    )


def evaluated_rounds(config: Config) -> range:
    """The rounds after which the model is evaluated, without the last, which ends the phase."""
    every = config.evaluation.evaluate_every
    return range(every - 1, config.rl.rounds - 1 if config.evaluation.round_samples else 0, every)


def round_tasks(
    root: int,
    round_index: int,
    levels: Sequence[int],
    suite: str = "core13",
    admits: Admits | None = None,
    chosen: Sequence[str] = (),
    rehearsed: Collection[int] = (),
) -> tuple[Task, ...]:
    """The tasks of a round; slot `i` at a level is the same task in every cell.

    Families take turns over the slots of all rounds, in an order that the seed shuffles, or are `chosen` for each slot;
    one that has no task which is admitted gives its turn to the next. The slots that are `rehearsed` have tasks of the
    suite that a supervised start has its pairs of, by turns. Raises UsageError where no family has a task.
    """
    found = []
    for slot, level in enumerate(levels):
        is_chosen = bool(chosen) and slot not in rehearsed
        families = SUITES[TAUGHT.get(suite, suite) if slot in rehearsed else suite][level]
        order = permutation(derive(root, "family order", level), len(families))
        seed = derive(root, "draw", round_index, slot, level)
        turn = order.index(families.index(chosen[slot])) if is_chosen else round_index * len(levels) + slot
        drawn = (
            _first_admitted(tasks(Split.TRAIN, level, seed, (families[order[place % len(families)]],)), admits)
            for place in range(turn, turn + len(families))
        )
        task = next((task for task in drawn if task is not None), None)
        if task is None:
            raise UsageError(f"against: no family of level {level} has a task left to train on")
        found.append(task)
    return tuple(found)


def rehearsed_slots(config: Config, root: int, round_index: int) -> frozenset[int]:
    """The slots of a round whose tasks are rehearsed."""
    seed = derive(root, "rehearsed", round_index)
    return draw_slots(config.curriculum.rehearsal_share, config.rl.tasks_per_round, seed)


def round_families(
    config: Config, state: CurriculumState, root: int, round_index: int, levels: Sequence[int]
) -> tuple[str, ...]:
    """The families of a round's slots where the policy's success decides them; nothing where they take turns."""
    if config.curriculum.families == "turns":
        return ()
    seed = derive(root, "families", round_index)
    return draw_families(state, SUITES[config.suite], levels, config.curriculum.family_floor, seed)


def family_of(task: Task) -> str:
    """The name that its suite gives the family of a task."""
    return task.task_id.split("-")[1]


def _first_admitted(drawn: Iterator[Drawn], admits: Admits | None) -> Drawn | None:
    """The first task or example of a family that may be used, null where the family seems to have none."""
    if admits is None:
        return next(drawn)
    return next(
        (one for one in islice(drawn, MOST_REFUSED) if admits(one.task if isinstance(one, Example) else one)), None
    )


def permutation(seed: int, length: int) -> list[int]:
    """The numbers below `length` in an order that the seed decides."""
    return [int(index) for index in np.random.default_rng(seed).permutation(length)]


def taught_suite(config: Config) -> str:
    """The suite of whose teachers a supervised start learns."""
    return TAUGHT.get(config.suite, config.suite)


def supervised_examples(config: Config, root: int, admits: Admits | None = None, jobs: int = 1) -> Iterator[Example]:
    """Yield the pairs of a supervised start whose streams derive from `root`, level by level.

    A suite without teachers has those of another (`TAUGHT`). With `sft.draw_launches` solutions have launches of their
    own. Those that are not `admits`-ed are passed over. Without `admits`, many are written by `jobs` processes. Raises
    UsageError where the suite has no such level, and where a level has too few tasks that are admitted.
    """
    sft, suite = config.sft, taught_suite(config)
    counts = {level: round(sft.num_pairs * share) for level, share in ((2, sft.level2_share), (3, sft.level3_share))}
    counts = {1: sft.num_pairs - sum(counts.values()), **counts}
    families = SUITES[suite]
    for level, number in counts.items():
        if not number:
            continue
        if level not in families:
            raise UsageError(f"sft.level{level}_share: the suite {suite} has no level {level}")
        seed = derive(root, "data", level)
        if admits is None:
            ids = islice(example_ids(Split.TRAIN, level, seed, families[level]), number)
            write = partial(_render_with_launches, root) if sft.draw_launches else render
            yield from _render_all(ids, write, jobs if number >= RENDERED_ASIDE else 1)
            continue
        admitted = list(islice(_admitted_examples(level, seed, families[level], admits), number))
        if len(admitted) < number:
            raise UsageError(f"against: level {level} has {len(admitted)} tasks left to train on, and {number} are due")
        yield from (_with_launches(root, example) for example in admitted) if sft.draw_launches else admitted


def _with_launches(root: int, example: Example) -> Example:
    rng = random.Random(derive(root, "launches", example.task.task_id))
    return evolve(example, solution=draw_launches(example.solution, rng))


def _render_with_launches(root: int, task_id: str) -> Example:
    return _with_launches(root, render(task_id))


def _render_all(ids: Iterator[str], write: Callable[[str], Example], jobs: int) -> Iterator[Example]:
    if jobs == 1:
        yield from map(write, ids)
        return
    # torch's threads do not survive a fork
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(write, ids, chunksize=64)


def _admitted_examples(level: int, seed: int, families: Sequence[str], admits: Admits) -> Iterator[Example]:
    """The admitted ones of `examples` in its order; a family that seems to have none left is left out."""
    streams = {name: examples(Split.TRAIN, level, seed, (name,)) for name in families}
    while streams:
        for name in tuple(streams):
            example = _first_admitted(streams[name], admits)
            if example is None:
                del streams[name]
            else:
                yield example
