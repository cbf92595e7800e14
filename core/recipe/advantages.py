"""What a round learns from the answers to one task, a group: the best of them, or how much likelier each is to become.

Best-of-n, the study's learner, is fine-tuned on the best K of N answers (`select`). A reward of 0 is never selected,
even where that leaves fewer than K: fine-tuning on a failure teaches the failure. Ties go to the lowest index, that is
to the earlier sample, which says nothing about quality and favours none. The same source counts once (its
best-rewarded, then earliest sample): selected twice, it would get twice the weight.

Policy gradients weigh all answers of a group. Which learner does what:

| learner | advantage of answer i | what a token of it weighs in a step of n answers |
|---|---|---|
| `rloo` | its reward minus the mean of the others' (2402.14740) | 1 / tokens of all n |
| `grpo` | its reward minus the group's mean, over the group's standard deviation (2402.03300) | 1 / (n x its tokens) |
| `dr-grpo` | its reward minus the group's mean (2503.20783) | 1 / (n x the most tokens that an answer may have) |

So in `grpo` alone a long answer's tokens count less than a short one's, and a group of nearly equal rewards as much as
any other. The sum of a group's advantages is zero, and equal rewards have none: they compare nothing.

`negative_weight` below 1 makes less of what is to become less likely: where few answers are right, most of what a step
is told is what not to write, and where the probability goes instead nobody says (2506.20520 lowers the baseline for
that). 1 is the gradient of the expected reward; 0 learns only from what is better than the others.

`solved_weight` holds what is right already. A group that is all right compares nothing, and one that is all wrong
teaches nothing: where learning from other tasks spoils a solved one, no sample says so before it is lost, and then none
is right that could lead back. An advantage of `solved_weight` on the answers of solved groups is supervision by the
policy's own right answers: nothing while they are certain, since their probability has no slope then, and the more the
less likely they become.

Groups are used by what they can teach about correctness. Where all answers are wrong, a reward that differs (partial
credit) would prefer one wrong answer to another: such a group is left out. Where all are right, speed may differ;
`skip_solved` leaves those out too. They count among the n answers all the same (`harness.study.learning`): a mean over
the used ones alone would make the rounds with the least to compare the ones with the largest steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import assert_never

from ..config import Algorithm


def select(rewards: Sequence[float], keep: int, sources: Sequence[str] | None = None) -> tuple[int, ...]:
    """Return the indices of the best `keep` rewards, best first; `sources` are texts or hashes that tell duplicates.

    Raises ValueError for a negative `keep`, and where there are not as many sources as rewards.
    """
    if keep < 0:
        raise ValueError(f"keep: must be >= 0, got {keep}")
    if sources is not None and len(sources) != len(rewards):
        raise ValueError(f"{len(rewards)} rewards, but {len(sources)} sources")
    chosen: list[int] = []
    seen: set[str] = set()
    for index in sorted((i for i, reward in enumerate(rewards) if reward > 0.0), key=lambda i: (-rewards[i], i)):
        if len(chosen) == keep:
            break
        if sources is not None:
            if sources[index] in seen:
                continue
            seen.add(sources[index])
        chosen.append(index)
    return tuple(chosen)


def compute_advantages(
    algorithm: Algorithm, rewards: Sequence[float], negative_weight: float = 1.0, held: float = 0.0
) -> tuple[float, ...]:
    """Return the advantage of each answer of a group, `held` more; raises ValueError for an algorithm that has none."""
    found = _compare(algorithm, rewards)
    return tuple(held + (advantage * negative_weight if advantage < 0.0 else advantage) for advantage in found)


def _compare(algorithm: Algorithm, rewards: Sequence[float]) -> tuple[float, ...]:
    if algorithm == "best-of-n":
        raise ValueError("best-of-n selects answers, and has no advantages")
    if len(set(rewards)) < 2:
        return (0.0,) * len(rewards)
    num = len(rewards)
    mean = math.fsum(rewards) / num
    centred = [reward - mean for reward in rewards]
    if algorithm == "rloo":
        # minus the mean of the others is this, times the number of all over that of the others
        return tuple(value * num / (num - 1) for value in centred)
    if algorithm == "dr-grpo":
        return tuple(centred)
    if algorithm == "grpo":
        deviation = math.sqrt(math.fsum(value * value for value in centred) / num)
        return tuple(value / deviation if deviation > 0.0 else 0.0 for value in centred)
    assert_never(algorithm)


def weigh_tokens(
    algorithm: Algorithm, advantages: Sequence[float], lengths: Sequence[int], most_tokens: int
) -> tuple[float, ...]:
    """Return what each token of an answer weighs in a step of these answers; `lengths` are their numbers of tokens."""
    if algorithm == "grpo":
        return tuple(advantage / (len(lengths) * length) for advantage, length in zip(advantages, lengths, strict=True))
    total = len(lengths) * most_tokens if algorithm == "dr-grpo" else sum(lengths)
    return tuple(advantage / total for advantage in advantages)


def is_mixed(correct: Sequence[bool]) -> bool:
    """Return whether a group has right and wrong answers."""
    return any(correct) and not all(correct)


def is_used(correct: Sequence[bool], skip_solved: bool) -> bool:
    """Return whether a group of answers is learned from by a policy gradient: not where all are wrong."""
    return is_mixed(correct) or (all(correct) and not skip_solved)
