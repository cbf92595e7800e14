"""What a results folder shows, computed once from its Parquet and used by every form of the report.

Rates carry Wilson intervals over samples, means bootstrap intervals over tasks, effects bootstrap intervals over seeds
and tasks (`core.factorial`). What cannot be concluded is said: a missing number is null, and `remarks` and `answers`
hold the sentences for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from attrs import frozen

from ..core import factorial
from ..core.extensions import ALL_CELLS, Extensions
from ..core.outcome import Stage
from ..core.seeds import derive
from ..core.serialisation import to_plain
from ..core.statistics import Interval, bootstrap_interval, wilson_interval
from .cell import SFT
from .store import Results

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


def rate(num_successes: int, num_trials: int) -> Estimate:
    """A share of samples with Wilson's interval."""
    return Estimate.over(num_trials, wilson_interval(num_successes, num_trials))


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
    speedup: Estimate
    estimated_speedup: Estimate
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


def analyse(results: Results) -> Analysis:
    """Everything that a report of this folder shows."""
    recorded = results.recorded() or {}
    cells = results.read("cells")
    evaluation, candidates = results.read("evaluation"), results.read("candidates")
    names = [SFT, *map(str, ALL_CELLS)]
    facts = [_cell_facts(name, cells, evaluation, candidates) for name in names if (cells["cell"] == name).any()]
    grid = tuple(fact for fact in facts if fact.cell != SFT)
    effects = {metric: _effects(metric, cells, evaluation) for metric in METRICS}
    funnel = _funnel(cells, results.read("stages"))
    rounds = results.read("rounds")
    num_seeds = int(cells["seed"].n_unique())
    clock = str(recorded.get("clock", "no clock"))
    return Analysis(
        clock=clock,
        backend=str(recorded.get("backend", "unknown")),
        policy=str(recorded.get("config", {}).get("policy", {}).get("name", "unknown")),
        versions=recorded.get("all_versions", {}),
        num_seeds=num_seeds,
        num_complete=cells.filter((pl.col("status") == "complete") & (pl.col("cell") != SFT)).height,
        num_failed=cells.filter(pl.col("status") == "failed").height,
        start=next((fact for fact in facts if fact.cell == SFT), None),
        cells=grid,
        effects=effects,
        funnel=funnel,
        curriculum=_curves(rounds, "level2_share"),
        rewards=_curves(rounds, "mean_reward"),
        losses=_losses(results.read("training")),
        outcomes=_outcomes(candidates),
        answers=_answers(effects, funnel, grid, clock),
        remarks=_remarks(cells, evaluation, effects, num_seeds, clock),
    )


def _share(frame: pl.DataFrame, column: str) -> Estimate:
    return rate(int(frame[column].sum() or 0), frame.height)


def _cell_facts(name: str, cells: pl.DataFrame, evaluation: pl.DataFrame, candidates: pl.DataFrame) -> CellFacts:
    own, judged = cells.filter(pl.col("cell") == name), evaluation.filter(pl.col("cell") == name)
    sampled = candidates.filter(pl.col("cell") == name)
    correct = judged.filter("correct")
    accepted, audited = sampled.filter("correct"), sampled.filter("audit_correct")
    return CellFacts(
        cell=name,
        num_seeds=own.height,
        num_failed=own.filter(pl.col("status") == "failed").height,
        valid=_share(judged, "valid"),
        compiled=_share(judged, "compiled"),
        correct=_share(judged, "correct"),
        correct_level1=_share(judged.filter(pl.col("level") == 1), "correct"),
        correct_level2=_share(judged.filter(pl.col("level") == 2), "correct"),
        speedup=_mean(correct, "speedup"),
        estimated_speedup=_mean(correct, "estimated_speedup"),
        false_positives=rate(accepted.filter(~pl.col("audit_correct")).height, accepted.height),
        false_negatives=rate(audited.filter(~pl.col("correct")).height, audited.height),
        train_seconds=float(own["train_s"].sum()),
        sample_seconds=float(own["sample_s"].sum()),
        verify_seconds=float(own["verify_s"].sum()),
    )


def _mean(frame: pl.DataFrame, column: str) -> Estimate:
    measured = frame.drop_nulls(column)
    interval = bootstrap_interval(measured[column].to_list(), derive(0, "report", column), measured["task"].to_list())
    return Estimate.over(measured.height, interval)


def _effects(metric: str, cells: pl.DataFrame, evaluation: pl.DataFrame) -> factorial.Analysis | None:
    """Effects on a rate, from the complete cells: "correct", or "correct_level2" for one level's tasks."""
    name, _, level = metric.partition("_level")
    frame = evaluation.filter(pl.col("cell") != SFT)
    if level:
        frame = frame.filter(pl.col("level") == int(level))
    complete = cells.filter(pl.col("status") == "complete").select("cell", "seed")
    grouped = frame.join(complete, on=["cell", "seed"]).group_by("cell", "seed", "task").agg(pl.col(name).mean())
    responses = [
        factorial.Response(extensions=Extensions.parse(cell), seed=seed, task=task, value=value)
        for cell, seed, task, value in grouped.sort("cell", "seed", "task").iter_rows()
    ]
    return factorial.analyse(responses, derive(0, "report", "effects"))


def _funnel(cells: pl.DataFrame, stages: pl.DataFrame) -> tuple[FunnelStage, ...]:
    sample = ["cell", "seed", "phase", "round", "slot", "sample"]
    ours = stages.filter(pl.col("verifier") == "training").join(
        cells.select("cell", "seed", "staged"), on=["cell", "seed"]
    )
    # a stage is saved by staging where an earlier stage of the same candidate had failed
    ours = ours.sort("stage_index").with_columns(
        failed_before=((~pl.col("passed")).cast(pl.Int64).cum_sum().over(sample) - (~pl.col("passed")).cast(pl.Int64))
        > 0
    )
    found = []
    for staged in (False, True):
        for stage in Stage:
            rows = ours.filter((pl.col("staged") == staged) & (pl.col("stage") == stage.value))
            if ours.filter(pl.col("staged") == staged).height:
                found.append(
                    FunnelStage(
                        staged=staged,
                        stage=stage,
                        num_attempted=rows.height,
                        num_failed=rows.filter(~pl.col("passed")).height,
                        seconds=float(rows["stage_s"].sum()),
                        saved_seconds=float(rows.filter("failed_before")["stage_s"].sum()),
                    )
                )
    return tuple(found)


def _curves(rounds: pl.DataFrame, column: str) -> tuple[Curve, ...]:
    means = rounds.group_by("cell", "round").agg(pl.col(column).mean()).sort("cell", "round")
    return _by_cell(means, column)


def _losses(training: pl.DataFrame) -> tuple[Curve, ...]:
    ordered = training.with_columns(pl.col("round").fill_null(-1))
    means = ordered.group_by("cell", "round", "step").agg(pl.col("loss").mean()).sort("cell", "round", "step")
    return _by_cell(means, "loss")


def _by_cell(frame: pl.DataFrame, column: str) -> tuple[Curve, ...]:
    names = [name for name in (SFT, *map(str, ALL_CELLS)) if (frame["cell"] == name).any()]
    return tuple(Curve(cell=name, values=tuple(frame.filter(pl.col("cell") == name)[column])) for name in names)


def _outcomes(candidates: pl.DataFrame) -> tuple[tuple[str, int], ...]:
    counts = candidates.group_by("outcome").len().sort(["len", "outcome"], descending=[True, False])
    return tuple((str(code), int(number)) for code, number in counts.iter_rows())


def _effect(effects: Mapping[str, factorial.Analysis | None], metric: str, term: str) -> factorial.Effect | None:
    found = effects[metric]
    return None if found is None else found.effect(term)


def _answers(
    effects: Mapping[str, factorial.Analysis | None],
    funnel: Sequence[FunnelStage],
    cells: Sequence[CellFacts],
    clock: str,
) -> tuple[Answer, ...]:
    exhaustive = [stage for stage in funnel if not stage.staged]
    spent, saved = sum(s.seconds for s in exhaustive), sum(s.saved_seconds for s in exhaustive)
    staging = (
        f"Staging would save {saved / spent:.0%} of the verification time of the cells without it "
        f"({saved:.1f} of {spent:.1f} s)."
        if spent > 0
        else "No cell without staging was run, so nothing can be compared."
    )
    false_positives = {
        on: _pooled([fact.false_positives for fact in cells if Extensions.parse(fact.cell).multi_input == on])
        for on in (False, True)
    }
    rewarded = "; ".join(
        f"{'with' if on else 'without'} it {share.value or 0.0:.0%} of {share.count} accepted candidates fail the audit"
        for on, share in false_positives.items()
        if share.count
    )
    timed = "" if clock == "measured" else f" The noise is injected ({clock})."
    return (
        Answer(
            question="Does multi-input testing (M) generalise better?",
            answer=_sentence(_effect(effects, "correct", "m"))
            + (f" {rewarded[:1].upper()}{rewarded[1:]}." if rewarded else " No candidate was accepted in training."),
        ),
        Answer(question="Does staged evaluation (S) save verification time?", answer=staging),
        Answer(
            question="Does the adaptive curriculum (C) help Level 2?",
            answer=_sentence(_effect(effects, "correct_level2", "c")),
        ),
        Answer(
            question="How much does timing noise (T) matter?",
            answer=_sentence(_effect(effects, "correct", "t")) + timed,
        ),
    )


def _pooled(shares: Sequence[Estimate]) -> Estimate:
    count = sum(share.count for share in shares)
    return rate(round(sum((share.value or 0.0) * share.count for share in shares)), count)


def _sentence(effect: factorial.Effect | None) -> str:
    if effect is None or effect.estimate is None:
        return "The cells that were run cannot tell: run --grid full, or half."
    size = f"{effect.estimate * 100:+.1f} points"
    if effect.low is None or effect.high is None:
        return f"Its main effect is {size}, with nothing to judge its noise by, so nothing can be concluded."
    if effect.low == effect.high == 0.0:
        return "No difference at all was seen between the cells with it and those without."
    bounds = f"95% interval {effect.low * 100:+.1f} to {effect.high * 100:+.1f}"
    if not effect.conclusive:
        return f"Too little data to tell an effect from noise: {size} ({bounds})."
    return f"It {'helps' if effect.estimate > 0 else 'hurts'}: {size} ({bounds})."


def _remarks(
    cells: pl.DataFrame,
    evaluation: pl.DataFrame,
    effects: Mapping[str, factorial.Analysis | None],
    num_seeds: int,
    clock: str,
) -> tuple[str, ...]:
    remarks = []
    if clock == "simulated clock":
        remarks.append("Speedups are estimates by the simulated clock: a roofline model with injected noise.")
    if num_seeds < 3:
        plural = "s" if num_seeds != 1 else ""
        remarks.append(f"{num_seeds} seed{plural}: differences between cells may be chance; run at least 3.")
    per_cell = evaluation.filter(pl.col("cell") != SFT).group_by("cell").len()["len"]
    smallest = per_cell.min()
    if isinstance(smallest, int) and smallest < 100:
        remarks.append(
            f"{smallest} held-out samples a cell: a rate's 95% interval is up to "
            f"{_half_width(smallest) * 100:.0f} points wide to either side."
        )
    failed = cells.filter(pl.col("status") == "failed")
    remarks += [
        f"{cell} seed {seed} failed: {why}" for cell, seed, why in failed["cell", "seed", "message"].iter_rows()
    ]
    missing = len(ALL_CELLS) - cells.filter(pl.col("cell") != SFT)["cell"].n_unique()
    if missing:
        remarks.append(f"{missing} of 16 cells were not run; interactions may be confounded with one another.")
    primary = effects["correct"]
    if primary is None:
        remarks.append("No complete cell, so no effect can be estimated.")
    elif "seeds" not in primary.resampled:
        remarks.append(f"Intervals of effects resample {primary.resampled} only: they say nothing of another seed.")
    return tuple(remarks)


def _half_width(count: int) -> float:
    middle = rate(count // 2, count)
    return 0.0 if middle.low is None or middle.high is None else (middle.high - middle.low) / 2


def as_plain(analysis: Analysis) -> dict[str, Any]:
    """The analysis as plain data, for `--format json`."""
    plain: dict[str, Any] = to_plain(analysis)
    return plain
