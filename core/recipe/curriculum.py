"""Sets how many tasks of a round are Level 2 (extension C), as a state transition.

Adaptive: the share starts at 0.1 and rises once the windowed Level 1 accuracy, the mean of the last 5 rounds that had
one, passes 0.40. Two readings of "rises linearly to 0.5" can be selected:

- "step": by 0.05 each round in which the windowed accuracy is above the threshold; it never falls.
- "accuracy": linear in the windowed accuracy, from the start share at the threshold to the end share at 1.0; it
  falls again where accuracy does.

A window that is not full yet counts as it is: runs may be shorter than the window, and would else never move. A round
without Level 1 tasks has no accuracy and changes nothing. Not adaptive: the share is `fixed_share` for ever.

Which families of a level the tasks come from is another matter, for any cell: they take turns, or a family weighs
4 p (1 - p), p being how often answers to its tasks were right so far, and never less than a floor. A family that is
always right or always wrong teaches a learner that compares the answers to a task nothing. Answers count half as much
with every three rounds, since the policy that gave them is gone, and a family that was never drawn weighs most.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from attrs import evolve, field, frozen, validators

from ..config import CurriculumConfig

_MEMORY = 0.5 ** (1 / 3)
"""What of a count is left after a round."""


@frozen(kw_only=True)
class FamilySuccess:
    """How many answers to a family's tasks were right so far, and how many there were; older ones count less."""

    family: str
    num_right: float
    num_answers: float

    @property
    def rate(self) -> float:
        """Return the share that was right, a half where there was none yet."""
        return (self.num_right + 1.0) / (self.num_answers + 2.0)


@frozen(kw_only=True)
class CurriculumState:
    """The share of Level 2 tasks in the next round, and the Level 1 accuracies that the window holds, oldest first."""

    level2_share: float = field(validator=[validators.ge(0.0), validators.le(1.0)])
    level1_accuracies: tuple[float, ...] = ()
    successes: tuple[FamilySuccess, ...] = ()

    @property
    def windowed_accuracy(self) -> float | None:
        """Return mean Level 1 accuracy over the window; null before the first."""
        if not self.level1_accuracies:
            return None
        return math.fsum(self.level1_accuracies) / len(self.level1_accuracies)


def start(config: CurriculumConfig, adaptive: bool) -> CurriculumState:
    return CurriculumState(level2_share=config.start_share if adaptive else config.fixed_share)


def advance(
    state: CurriculumState, level1_accuracy: float | None, config: CurriculumConfig, adaptive: bool
) -> CurriculumState:
    """Return the state after a round whose Level 1 candidates were correct at the given rate; null = it had none.

    Raises ValueError for a rate outside [0, 1].
    """
    if level1_accuracy is None:
        return state
    if not 0.0 <= level1_accuracy <= 1.0:
        raise ValueError(f"level1_accuracy: must be in [0, 1], got {level1_accuracy!r}")
    window = (*state.level1_accuracies, level1_accuracy)[-config.window :]
    state = evolve(state, level1_accuracies=window)
    if not adaptive:
        return state
    accuracy = state.windowed_accuracy
    assert accuracy is not None  # the window has just got one
    return evolve(state, level2_share=_next_share(state.level2_share, accuracy, config))


def _next_share(share: float, accuracy: float, config: CurriculumConfig) -> float:
    if config.schedule == "step":
        if accuracy <= config.threshold:
            return share
        # rounded, so that eight steps of 0.05 from 0.1 make 0.5 and a table shows no 0.15000000000000002
        return max(share, min(round(share + config.step, 12), config.end_share))
    if accuracy <= config.threshold:
        return config.start_share
    progress = (accuracy - config.threshold) / (1.0 - config.threshold)
    raised = config.start_share + (config.end_share - config.start_share) * progress
    return min(max(raised, config.start_share), config.end_share)


def count_successes(state: CurriculumState, answers: Iterable[tuple[str, bool]]) -> CurriculumState:
    """Return the state after a round with these answers: the family that each was to, and whether it was right."""
    right, drawn = Counter[str](), Counter[str]()
    for family, is_right in answers:
        right[family] += is_right
        drawn[family] += 1
    before = {success.family: success for success in state.successes}
    found = []
    for family in sorted({*before, *drawn}):
        old = before.get(family, FamilySuccess(family=family, num_right=0.0, num_answers=0.0))
        found.append(
            evolve(
                old,
                num_right=_MEMORY * old.num_right + right[family],
                num_answers=_MEMORY * old.num_answers + drawn[family],
            )
        )
    return evolve(state, successes=tuple(found))


def weigh_families(state: CurriculumState, families: Sequence[str], floor: float) -> tuple[float, ...]:
    """Return what each family weighs, in [floor, 1]."""
    rates = {success.family: success.rate for success in state.successes}
    return tuple(max(floor, 4.0 * rates.get(name, 0.5) * (1.0 - rates.get(name, 0.5))) for name in families)


def draw_families(
    state: CurriculumState, families: Mapping[int, Sequence[str]], levels: Sequence[int], floor: float, seed: int
) -> tuple[str, ...]:
    """Draw the family of each task slot of a round, by the success at it; `families` are those of each level.

    A level's slots are shared out in proportion to the weights, and none is off by a whole task. The seed decides who
    gets the fractions, and which slots are whose.
    """
    generator = np.random.default_rng(seed)
    chosen = [""] * len(levels)
    for level in sorted(set(levels)):
        slots = generator.permutation([slot for slot, other in enumerate(levels) if other == level])
        names = [families[level][place] for place in generator.permutation(len(families[level]))]
        edges = np.cumsum(weigh_families(state, names, floor))
        points = (np.arange(len(slots)) + generator.random()) * edges[-1] / len(slots)
        # the last edge is a sum, and may fall short of the last point by a rounding error
        for slot, place in zip(slots, np.searchsorted(edges[:-1], points, side="right"), strict=True):
            chosen[slot] = names[place]
    return tuple(chosen)


def draw_levels(share: float, num_tasks: int, seed: int) -> tuple[int, ...]:
    """Draw the level, 1 or 2, of each task slot of a round: `draw_slots` says which are Level 2."""
    level2 = draw_slots(share, num_tasks, seed)
    return tuple(2 if slot in level2 else 1 for slot in range(num_tasks))


def draw_slots(share: float, num_tasks: int, seed: int) -> frozenset[int]:
    """Draw which task slots of a round are of one kind, for which a share of them is meant.

    Their number is floor(share * num_tasks + u) with one uniform u in [0, 1): right on average and never off by a whole
    task (independent draws would scatter it). They take the first places of a random order of the slots. Both come from
    the seed alone, so that with one seed the slots of a larger share include those of a smaller: cells at different
    shares still work on as many common tasks as they can. Raises ValueError for a share outside [0, 1].
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share: must be in [0, 1], got {share!r}")
    generator = np.random.default_rng(seed)
    uniform = generator.random()
    order = generator.permutation(num_tasks)
    # without the nudge, 0.3 * 10 + u would fall short of 3 + u by a rounding error
    number = min(math.floor(share * num_tasks + uniform + 1e-9), num_tasks)
    return frozenset(int(slot) for slot in order[:number])
