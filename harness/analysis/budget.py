"""The grid at equal verification seconds: what each cell had reached when all had spent the same on verifying.

Multi-input testing and calibrated timing cost more for each sample, so a comparison at equal samples flatters them. The
budget is the most training-verifier seconds that every complete run of the grid spent. A model changes at the end of a
round and not before, so a run stands at the end of the round that lies nearest to the budget in seconds, which may be
its supervised start: what it had spent there is beside it. Its rate there is that of the evaluation on the held-out
tasks where there was one (of the start, after the rounds that `evaluation.round_samples` asked for, at the end), and
else between those around it, task by task, linear in rounds. The effects of these rates are then estimated exactly as
at equal samples.

Limits. With evaluations at the start and the end alone learning is taken for linear in rounds, so an early plateau of a
dear cell is not seen; `BudgetCell.num_evaluations` says how many there were. Seconds are those that the verdicts took
when they were first computed, on whatever machine and under whatever load that was. The budget is treated as known: the
intervals do not allow for its own noise.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

import polars as pl
from attrs import frozen

from ...core.recipe.extensions import Extensions
from ...core.seeds import derive
from ...core.statistics import factorial
from ...core.statistics.intervals import clustered_rate_interval, percentile_ends, resampling_weights
from ..study.rows import SFT
from ..tables import SAMPLE_KEY
from .findings import METRICS, Budget, BudgetCell, Estimate, HeldOutPoint, LearningPoint
from .rates import after_a_failure, by_task, complete_runs, grid_cells, place_in_tables, rate_over_tasks


@frozen(kw_only=True)
class _Run:
    """One complete run of the grid: its seconds, and where it was evaluated.

    `spent` are the seconds until the start and until the end of each round; `evaluated` are (finished rounds, cell,
    round in the table of evaluations), in order.
    """

    cell: str
    seed: int
    spent: tuple[float, ...]
    evaluated: tuple[tuple[int, str, int | None], ...]

    @property
    def total(self) -> float:
        return self.spent[-1]

    def rounds_at(self, seconds: float) -> int:
        """How many rounds had been finished where the run stands at that budget; of two as near, the fewer."""
        return min(range(len(self.spent)), key=lambda number: abs(self.spent[number] - seconds))


def at_equal_seconds(cells: pl.DataFrame, rounds: pl.DataFrame, evaluation: pl.DataFrame) -> Budget:
    """The view at the largest budget that all complete runs of the grid reached."""
    runs = _runs(cells, rounds, evaluation)
    seconds = min((run.total for run in runs), default=0.0)
    if seconds <= 0.0 or any(run.evaluated[0][0] > 0 for run in runs):
        return Budget(seconds=None, cells=(), effects=dict.fromkeys(METRICS))
    rates = {metric: _rates_at(seconds, runs, by_task(metric, evaluation)) for metric in METRICS}
    return Budget(
        seconds=seconds,
        cells=_budget_cells(seconds, runs, rates[METRICS[0]]),
        effects={
            metric: factorial.analyse(
                [
                    factorial.Response(cell=Extensions.parse(run.cell), seed=run.seed, task=task, value=value)
                    for run, found in zip(runs, rates[metric], strict=True)
                    for task, value in found.items()
                ]
            )
            for metric in METRICS
        },
    )


def _runs(cells: pl.DataFrame, rounds: pl.DataFrame, evaluation: pl.DataFrame) -> list[_Run]:
    seconds: dict[tuple[str, int], list[float]] = {}
    for cell, seed, spent in rounds.sort("cell", "seed", "round")["cell", "seed", "verify_s"].iter_rows():
        seconds.setdefault((cell, seed), []).append(spent)
    evaluated = set(evaluation["cell", "seed", "round"].unique().iter_rows())
    found = []
    for cell, seed in complete_runs(grid_cells(cells)).sort("cell", "seed").iter_rows():
        each = seconds.get((cell, seed), [])
        spent = tuple(math.fsum(each[:number]) for number in range(len(each) + 1))
        places: list[tuple[int, str, int | None]] = [(0, SFT, None)] if (SFT, seed, None) in evaluated else []
        places += [(index + 1, cell, index) for index in range(len(each) - 1) if (cell, seed, index) in evaluated]
        places += [(len(each), cell, None)] if (cell, seed, None) in evaluated else []
        if places:
            found.append(_Run(cell=cell, seed=seed, spent=spent, evaluated=tuple(places)))
    return found


def _rates_at(seconds: float, runs: Sequence[_Run], shares: pl.DataFrame) -> list[dict[str, float]]:
    """The rate of each task at the budget, run by run."""
    table = _by_place(shares)
    found = []
    for run in runs:
        finished = run.rounds_at(seconds)
        after = bisect_right([place[0] for place in run.evaluated], finished)
        first, last = run.evaluated[max(after - 1, 0)], run.evaluated[min(after, len(run.evaluated) - 1)]
        weight = (finished - first[0]) / (last[0] - first[0]) if last[0] > first[0] else 0.0
        low, high = table.get((first[1], run.seed, first[2]), {}), table.get((last[1], run.seed, last[2]), {})
        found.append({task: low[task] + (high[task] - low[task]) * weight for task in low.keys() & high.keys()})
    return found


def _by_place(shares: pl.DataFrame) -> dict[tuple[str, int, int | None], dict[str, float]]:
    """The rate of each task by cell, seed and round."""
    table: dict[tuple[str, int, int | None], dict[str, float]] = {}
    for cell, seed, index, task, value in shares.iter_rows():
        table.setdefault((cell, seed, index), {})[task] = value
    return table


def _budget_cells(seconds: float, runs: Sequence[_Run], rates: Sequence[dict[str, float]]) -> tuple[BudgetCell, ...]:
    found = []
    for name in dict.fromkeys(run.cell for run in runs):
        own = [(run, rate) for run, rate in zip(runs, rates, strict=True) if run.cell == name]
        values = [(task, value) for _, rate in own for task, value in sorted(rate.items())]
        found.append(
            BudgetCell(
                cell=name,
                total_seconds=math.fsum(run.total for run, _ in own) / len(own),
                num_rounds=math.fsum(run.rounds_at(seconds) for run, _ in own) / len(own),
                spent_seconds=math.fsum(run.spent[run.rounds_at(seconds)] for run, _ in own) / len(own),
                num_evaluations=min(len(run.evaluated) for run, _ in own),
                correct=rate_over_tasks([value for _, value in values], [task for task, _ in values]),
            )
        )
    return tuple(sorted(found, key=lambda cell: place_in_tables(cell.cell)))


def held_out_points(cells: pl.DataFrame, rounds: pl.DataFrame, evaluation: pl.DataFrame) -> tuple[HeldOutPoint, ...]:
    """What each cell of the grid had reached on the held-out tasks wherever its runs were evaluated."""
    shares = _by_place(by_task(METRICS[0], evaluation))
    runs = _runs(cells, rounds, evaluation)
    found = []
    for name in sorted({run.cell for run in runs}, key=place_in_tables):
        own = [run for run in runs if run.cell == name]
        for number in sorted({number for run in own for number, _, _ in run.evaluated}):
            places = [(cell, run.seed, index) for run in own for at, cell, index in run.evaluated if at == number]
            values = [each for place in places for each in shares[place].items()]
            rate = rate_over_tasks([value for _, value in values], [task for task, _ in values])
            found.append(HeldOutPoint(cell=name, num_rounds=number, correct=rate))
    return tuple(found)


def learning_points(rounds: pl.DataFrame, candidates: pl.DataFrame) -> tuple[LearningPoint, ...]:
    """Each cell's quality in training against what verifying had cost until then."""
    ordered = rounds.sort("cell", "seed", "round").with_columns(
        before=(pl.col("verify_s").cum_sum() - pl.col("verify_s")).over("cell", "seed")
    )
    means = ordered.group_by("cell", "round").agg(pl.col("before").mean(), pl.col("mean_reward").mean())
    return tuple(
        LearningPoint(
            cell=cell,
            round=index,
            seconds=before,
            mean_reward=reward,
            correct=_levels_alike(candidates.filter((pl.col("cell") == cell) & (pl.col("round") == index))),
        )
        for cell, index, before, reward in means.sort("cell", "round").iter_rows()
    )


def _levels_alike(sampled: pl.DataFrame) -> Estimate:
    """The rate of correct ones among the candidates that were audited, the mean of the levels' own rates.

    What is resampled is that mean plus each candidate's weighted difference to its level's rate: a draw with more tasks
    of one level than another then weights the levels as before, and no rate passes 1.
    """
    audited = sampled.drop_nulls("audit_correct")
    if audited.is_empty():
        return Estimate(count=0)
    marks = audited.select(pl.col("task"), pl.col("level"), mark=pl.col("audit_correct").cast(pl.Float64))
    rates = marks.group_by("level").agg(pl.col("mark").mean()).sort("level")["mark"].to_list()
    overall = math.fsum(rates) / len(rates)
    weight = pl.len() / (len(rates) * pl.len().over("level"))
    values = marks.select(
        pl.col("task"), value=overall + (pl.col("mark") - pl.col("mark").mean().over("level")) * weight
    )
    found = clustered_rate_interval(
        values["value"].to_list(), values["task"].to_list(), derive(0, "report", "learning")
    )
    if found is None:
        return Estimate(count=0)
    return Estimate(count=audited.height, value=overall, low=max(0.0, found.low), high=min(1.0, found.high))


def cost_effects(cells: pl.DataFrame, rounds: pl.DataFrame) -> factorial.Analysis | None:
    """Effects on the logarithm of the training verifier's seconds a candidate, by run."""
    return _effects_by_run(rounds, cells, (pl.col("verify_s").sum() / pl.col("num_candidates").sum()).log())


def speed_effects(cells: pl.DataFrame, evaluation: pl.DataFrame, timing: str) -> factorial.Analysis | None:
    """Effects on the logarithm of the geometric mean of right held-out samples' speedups, by run."""
    name = "speedup" if timing == "measured" else "estimated_speedup"
    return _effects_by_run(evaluation.filter("correct").drop_nulls(name), cells, pl.col(name).log().mean())


def false_accept_effects(cells: pl.DataFrame, evaluation: pl.DataFrame) -> factorial.Analysis | None:
    """Effects on the share that the audit refuses of the held-out samples that training would have accepted, by run."""
    return _effects_by_run(evaluation.filter("accepted"), cells, 1.0 - pl.col("correct").mean())


def _effects_by_run(frame: pl.DataFrame, cells: pl.DataFrame, value: pl.Expr) -> factorial.Analysis | None:
    """Effects on a number of each complete run of the grid; a run whose number is not finite is left out."""
    runs = frame.join(complete_runs(grid_cells(cells)), on=["cell", "seed"]).group_by("cell", "seed")
    values = runs.agg(value=value).filter(pl.col("value").is_finite()).sort("cell", "seed")
    responses = [
        factorial.Response(cell=Extensions.parse(cell), seed=seed, value=value)
        for cell, seed, value in values.iter_rows()
    ]
    return factorial.analyse(responses) if responses else None


def staging_saving(cells: pl.DataFrame, stages: pl.DataFrame) -> Estimate:
    """The share of the seconds of exhaustive verification that were spent after a stage had failed."""
    exhaustive = grid_cells(cells).filter(~pl.col("staged")).select("cell", "seed")
    ours = stages.filter(pl.col("verifier") == "training").join(exhaustive, on=["cell", "seed"]).sort("stage_index")
    by_tasks = (
        ours.with_columns(late=after_a_failure())
        .group_by("task")
        .agg(pl.col("stage_s").sum().alias("spent"), pl.col("stage_s").filter(pl.col("late")).sum().alias("saved"))
    )
    ordered = by_tasks.sort("task")
    spent, saved = ordered["spent"].to_numpy(), ordered["saved"].to_numpy()
    count = ours.select(SAMPLE_KEY).n_unique() if ours.height else 0
    if not count or math.fsum(spent) <= 0.0:
        return Estimate(count=0)
    weights = resampling_weights(len(spent), 2000, derive(0, "report", "staging"))
    totals = weights @ spent
    draws = (weights @ saved)[totals > 0.0] / totals[totals > 0.0]
    value = math.fsum(saved) / math.fsum(spent)
    low, high = percentile_ends(draws, 0.95)
    return Estimate(count=count, value=value, low=min(low, value), high=max(high, value))
