"""What a report holds: the records that an analysis fills and every form of the report shows.

A number comes with how many samples it rests on and with its interval; what was not measured is null.
"""

from __future__ import annotations

from attrs import frozen

from ..core import factorial
from ..core.outcome import Stage
from ..core.statistics import Interval

METRICS = ("correct", "correct_level1", "correct_level2", "valid", "compiled")
"""The rates whose effects are estimated, the primary one first."""


@frozen(kw_only=True)
class Estimate:
    """A number over `count` samples with its 95% interval; null where there are none."""

    count: int
    value: float | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def over(cls, count: int, interval: Interval | None) -> Estimate:
        """From an interval over `count` samples."""
        if interval is None:
            return cls(count=count)
        return cls(count=count, value=interval.estimate, low=interval.low, high=interval.high)


@frozen(kw_only=True)
class CellFacts:
    """One cell over its seeds; every rate is over held-out samples, by the audit verifier."""

    cell: str
    num_seeds: int
    num_failed: int
    valid: Estimate
    compiled: Estimate
    correct: Estimate
    correct_level1: Estimate
    correct_level2: Estimate
    pass_at_1: Estimate
    pass_at_k: Estimate
    """The chance that one of `k` samples of a task is correct, over tasks."""
    speedup: Estimate
    estimated_speedup: Estimate
    fast_1: Estimate
    """The share of samples that are correct and faster than the reference; null without measured speedups."""
    estimated_fast_1: Estimate
    """The same by the simulated clock's estimates; null without them."""
    false_positives: Estimate
    """Of the candidates that the training verifier accepted, the share that the audit rejects."""
    false_negatives: Estimate
    """Of the candidates that the audit accepts, the share that the training verifier rejected."""
    train_seconds: float
    sample_seconds: float
    verify_seconds: float


@frozen(kw_only=True)
class FunnelStage:
    """One stage over all training candidates of the cells with, or without, staging."""

    staged: bool
    stage: Stage
    num_attempted: int
    num_failed: int
    seconds: float
    saved_seconds: float
    """Exhaustive: seconds spent here on candidates that an earlier stage had rejected, which staging saves."""


@frozen(kw_only=True)
class Curve:
    """A series of one cell, averaged over seeds; null where a round had nothing to measure."""

    cell: str
    values: tuple[float | None, ...]


@frozen(kw_only=True)
class Answer:
    """One research question and what this run says to it."""

    question: str
    answer: str


@frozen(kw_only=True)
class Analysis:
    """Everything that a report shows."""

    clock: str
    backend: str
    policy: str
    versions: dict[str, str | None]
    num_seeds: int
    num_complete: int
    num_failed: int
    samples_per_task: int
    """k of pass@k: held-out samples of a task in one cell with one seed."""
    start: CellFacts | None
    cells: tuple[CellFacts, ...]
    effects: dict[str, factorial.Analysis | None]
    funnel: tuple[FunnelStage, ...]
    curriculum: tuple[Curve, ...]
    rewards: tuple[Curve, ...]
    losses: tuple[Curve, ...]
    outcomes: tuple[tuple[str, int], ...]
    answers: tuple[Answer, ...]
    remarks: tuple[str, ...]
