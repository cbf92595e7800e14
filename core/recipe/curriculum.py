"""Sets how many tasks of a round are Level 2 (extension C), as a state transition.

Adaptive: the share starts at 0.1 and rises once the windowed Level 1 accuracy, the mean of the last 5 rounds that had
one, passes 0.40. Two readings of "rises linearly to 0.5" can be selected:

- "step": by 0.05 each round in which the windowed accuracy is above the threshold; it never falls.
- "accuracy": linear in the windowed accuracy, from the start share at the threshold to the end share at 1.0; it
  falls again where accuracy does.

A window that is not full yet counts as it is: runs may be shorter than the window, and would else never move. A round
without Level 1 tasks has no accuracy and changes nothing. Not adaptive: the share is `fixed_share` for ever.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import evolve, field, frozen, validators

from ..config import CurriculumConfig


@frozen(kw_only=True)
class CurriculumState:
    """The share of Level 2 tasks in the next round, and the Level 1 accuracies that the window holds, oldest first."""

    level2_share: float = field(validator=[validators.ge(0.0), validators.le(1.0)])
    level1_accuracies: tuple[float, ...] = ()

    @property
    def windowed_accuracy(self) -> float | None:
        """Return mean Level 1 accuracy over the window; null before the first."""
        if not self.level1_accuracies:
            return None
        return math.fsum(self.level1_accuracies) / len(self.level1_accuracies)


def start(config: CurriculumConfig, adaptive: bool) -> CurriculumState:
    """Return the state before the first round."""
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


def draw_levels(share: float, num_tasks: int, seed: int) -> tuple[int, ...]:
    """Draw the level, 1 or 2, of each task slot of a round.

    The number of Level 2 slots is floor(share * num_tasks + u) with one uniform u in [0, 1): right on average and
    never off by a whole task (independent draws would scatter it). They take the first places of a random order of
    the slots. Both come from the seed alone, so that with one seed the Level 2 slots of a larger share include those of
    a smaller: cells at different shares still work on as many common tasks as they can. Raises ValueError for a share
    outside [0, 1].
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share: must be in [0, 1], got {share!r}")
    generator = np.random.default_rng(seed)
    uniform = generator.random()
    order = generator.permutation(num_tasks)
    # without the nudge, 0.3 * 10 + u would fall short of 3 + u by a rounding error
    num_level2 = min(math.floor(share * num_tasks + uniform + 1e-9), num_tasks)
    levels = [1] * num_tasks
    for slot in order[:num_level2]:
        levels[slot] = 2
    return tuple(levels)
