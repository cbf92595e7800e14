"""How rewards are distributed before anything is learned: which groups of samples could teach something.

A task whose samples are all wrong or all right has nothing to compare. A start that leaves few mixed groups wants other
tasks, more supervised pairs, or more samples a task.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from ..study.learning import Sample


@frozen(kw_only=True)
class GroupFigures:
    """Groups by what their samples are, in a family or in all; `mean_reward` and `finished` are over samples."""

    group: str
    num_tasks: int
    all_wrong: float
    mixed: float
    all_right: float
    correct: float
    mean_reward: float
    finished: float
    distinct: float


def describe_groups(groups: Sequence[Sequence[Sample]]) -> tuple[GroupFigures, ...]:
    """Return the figures of all groups first, then those of each family, the one with most tasks first."""
    by_family: dict[str, list[Sequence[Sample]]] = {}
    for group in groups:
        by_family.setdefault(group[0].task.family, []).append(group)
    ordered = sorted(by_family.items(), key=lambda item: (-len(item[1]), item[0]))
    return (_describe("all", groups), *(_describe(name, own) for name, own in ordered))


def _describe(name: str, groups: Sequence[Sequence[Sample]]) -> GroupFigures:
    samples = [sample for group in groups for sample in group]
    right = [sum(sample.is_correct for sample in group) for group in groups]
    num, sizes = len(groups), [len(group) for group in groups]
    return GroupFigures(
        group=name,
        num_tasks=num,
        all_wrong=sum(count == 0 for count in right) / num,
        mixed=sum(0 < count < size for count, size in zip(right, sizes, strict=True)) / num,
        all_right=sum(count == size for count, size in zip(right, sizes, strict=True)) / num,
        correct=sum(right) / len(samples),
        mean_reward=sum(sample.reward for sample in samples) / len(samples),
        finished=sum(sample.completion.finished for sample in samples) / len(samples),
        distinct=sum(len({sample.source for sample in group}) for group in groups) / num,
    )


def render_groups(figures: Sequence[GroupFigures]) -> list[str]:
    """Return plain lines for a person."""
    width = max(len(row.group) for row in figures)
    lines = [
        f"{'tasks':{width}} {'num':>5} {'all wrong':>10} {'mixed':>7} {'all right':>10} {'correct':>8} {'reward':>7} "
        f"{'finished':>9} {'distinct':>9}"
    ]
    for row in figures:
        lines.append(
            f"{row.group:{width}} {row.num_tasks:5} {row.all_wrong:10.0%} {row.mixed:7.0%} {row.all_right:10.0%} "
            f"{row.correct:8.1%} {row.mean_reward:7.3f} {row.finished:9.0%} {row.distinct:9.1f}"
        )
    return lines
