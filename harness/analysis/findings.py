"""What a report holds: the records that an analysis fills and every form of the report shows.

A number comes with how many samples it rests on and with its interval; what was not measured is null.
"""

from __future__ import annotations

from attrs import frozen

from ...core.config import Config
from ...core.outcome import Stage
from ...core.statistics import factorial
from ...core.statistics.intervals import Interval
from ..study.provenance import Invocation, Totals

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
    correct_by_seed: tuple[float, ...]
    """What the interval of `correct`, which is over tasks, does not show: how far runs differ."""
    correct_level1: Estimate
    correct_level2: Estimate
    pass_at_1: Estimate
    pass_at_k: Estimate
    """The chance that one of `k` samples of a task is correct, over tasks."""
    speedup: Estimate
    """The geometric mean over correct samples; so is the estimated one."""
    estimated_speedup: Estimate
    fast_1: Estimate
    """The share of samples that are correct and faster than the reference; null without measured speedups."""
    estimated_fast_1: Estimate
    """The same by the estimates of simulated timing; null without them."""
    false_positives: Estimate
    """Of the candidates that the training verifier accepted, the share that the audit rejects."""
    false_negatives: Estimate
    """Of the candidates that the audit accepts, the share that the training verifier rejected."""
    wall_seconds: float
    train_seconds: float
    sample_seconds: float
    verify_seconds: float


@frozen(kw_only=True)
class AcceptedWrongly:
    """Of the candidates that verifiers with, or without, M accepted and the audit judged, those it rejects.

    A policy repeats itself: `num_distinct` counts pairs of source and task.
    """

    multi_input: bool
    num_distinct: int
    share: Estimate


@frozen(kw_only=True)
class LearnedFrom:
    """The samples that training selected in cells with, or without, S, and those that their own verifier had refused.

    Partial credit lets them in: where fewer than `rl.keep` of a task's samples are correct, the next best are kept.
    """

    staged: bool
    wrong: Estimate
    wrong_level2: Estimate


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
class LearningPoint:
    """The model that a round sampled with: what verifying had cost until then, and how good its candidates were.

    `seconds` are the training verifier's seconds of all earlier rounds, a mean over seeds. `correct` is by
    the audit, on the round's training tasks, each level weighted alike, so that a curriculum does not move it.
    """

    cell: str
    round: int
    seconds: float
    mean_reward: float
    correct: Estimate


@frozen(kw_only=True)
class HeldOutPoint:
    """A cell's rate on the held-out tasks after so many rounds, over its seeds; after none it is that of the start."""

    cell: str
    num_rounds: int
    correct: Estimate


@frozen(kw_only=True)
class BudgetCell:
    """One cell where all cells had spent nearly the same seconds on verification."""

    cell: str
    total_seconds: float
    """What the whole cell spent on verification, a mean over seeds."""
    num_rounds: float
    """Rounds that had been finished, a mean over seeds."""
    spent_seconds: float
    """What these rounds spent on verification, a mean over seeds."""
    num_evaluations: int
    """Evaluations of the held-out tasks that the rate is interpolated between; 2 = the start and the end alone."""
    correct: Estimate


@frozen(kw_only=True)
class Budget:
    """The view at equal verification seconds: the largest budget that every run of the grid reached; null = none."""

    seconds: float | None
    cells: tuple[BudgetCell, ...]
    effects: dict[str, factorial.Analysis | None]
    """Effects by metric, as `Analysis.effects`, on the rates at the budget."""


@frozen(kw_only=True)
class Comparison:
    """A cell outside the grid (a control, a noise setting) minus its counterpart, over pairs of seed and task."""

    cell: str
    counterpart: str
    metric: str
    num_seeds: int
    over: str
    """What the interval allows for: "seeds and tasks", "seeds", "tasks" or "nothing"."""
    difference: Estimate


@frozen(kw_only=True)
class NoiseSetting:
    """One setting of the noise sweep; `difference` is to the counterpart, whose timing is calibrated."""

    cell: str
    noise: str
    """ "calibrated", "single" or "injected"."""
    cv: float | None
    """The injected coefficient of variation; null where none was injected."""
    metric: str
    rate: Estimate
    counterpart: str | None
    num_seeds: int
    over: str
    """What the difference's interval allows for, as in `Comparison`."""
    difference: Estimate


@frozen(kw_only=True)
class TimingNoise:
    """How far measurements of one thing scatter under one protocol, from the `timings` table.

    `between` is the coefficient of variation over repeated measurements of a task's reference, a mean over tasks;
    `within` that over the trials of one measurement, a mean over measurements.
    """

    calibrated: bool
    simulated: bool
    num_tasks: int
    num_measurements: int
    between: Estimate
    within: Estimate


@frozen(kw_only=True)
class PairMean:
    """The mean rate over the cells with two extensions at given levels: a point of an interaction plot."""

    metric: str
    first: str
    second: str
    first_on: bool
    second_on: bool
    rate: Estimate


@frozen(kw_only=True)
class Answer:
    """One research question and what this run says to it."""

    question: str
    answer: str


@frozen(kw_only=True)
class Analysis:
    timing: str
    backend: str
    policy: str
    config: Config | None
    """What the run was configured with; null where no record of it is left."""
    versions: dict[str, str | None]
    invocations: tuple[Invocation, ...]
    """The commands that made the folder; empty where no record of them is left."""
    totals: Totals
    num_seeds: int
    num_complete: int
    """Cell runs, of the grid and beside it; starts do not count."""
    num_complete_in_grid: int
    num_failed: int
    samples_per_task: int
    """k of pass@k: held-out samples of a task in one cell with one seed."""
    start: CellFacts | None
    cells: tuple[CellFacts, ...]
    effects: dict[str, factorial.Analysis | None]
    """By metric, at equal samples; every effect has its interval, its adjusted p and what could have been detected."""
    budget: Budget
    """The same at equal verification seconds."""
    cost_effects: factorial.Analysis | None
    """On the natural logarithm of the training verifier's seconds a candidate: exp(effect) is a ratio of costs."""
    speed_effects: factorial.Analysis | None
    """On the natural logarithm of the geometric mean of right samples' speedups: exp(effect) is a ratio of speeds."""
    false_accept_effects: factorial.Analysis | None
    """On the share that the audit refuses of the held-out samples that a cell's training verifier accepts."""
    staging_saving: Estimate
    """The share of the verification seconds of cells without staging that staging would have saved."""
    pairs: tuple[PairMean, ...]
    held_out: tuple[HeldOutPoint, ...]
    learning: tuple[LearningPoint, ...]
    controls: tuple[CellFacts, ...]
    """Cells outside the grid, beside the start."""
    comparisons: tuple[Comparison, ...]
    noise_sweep: tuple[NoiseSetting, ...]
    timing_noise: tuple[TimingNoise, ...]
    accepted_wrongly: tuple[AcceptedWrongly, ...]
    learned_from: tuple[LearnedFrom, ...]
    funnel: tuple[FunnelStage, ...]
    curriculum: tuple[Curve, ...]
    rewards: tuple[Curve, ...]
    losses: tuple[Curve, ...]
    outcomes: tuple[tuple[str, int], ...]
    answers: tuple[Answer, ...] = ()
    remarks: tuple[str, ...] = ()
