"""Shares and means of samples with their intervals, as every part of the analysis states them.

Samples of one task are alike, so intervals resample tasks and take the samples of a task for one fact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from ...core.recipe.extensions import ALL_CELLS
from ...core.seeds import derive
from ...core.statistics.intervals import bootstrap_interval, clustered_rate_interval
from ..study.rows import SFT
from ..tables import SAMPLE_KEY
from .findings import Estimate, TimingNoise

_ORDER = (SFT, *map(str, ALL_CELLS))


def rate(frame: pl.DataFrame, mark: pl.Expr) -> Estimate:
    """The share of a frame's samples that are marked."""
    marks = frame.select(mark.alias("mark"))["mark"].to_list()
    return rate_over_tasks([float(value) for value in marks], frame["task"].to_list())


def rate_over_tasks(shares: Sequence[float], tasks: Sequence[str]) -> Estimate:
    """The mean of shares in [0, 1], one for each entry of `tasks`."""
    return Estimate.over(len(shares), clustered_rate_interval(shares, tasks, derive(0, "report", "rates")))


def mean(frame: pl.DataFrame, column: str) -> Estimate:
    """The mean of a column where it is not null."""
    measured = frame.drop_nulls(column)
    interval = bootstrap_interval(measured[column].to_list(), derive(0, "report", column), measured["task"].to_list())
    return Estimate.over(measured.height, interval)


def geometric_mean(frame: pl.DataFrame, column: str) -> Estimate:
    """The geometric mean of a column of ratios where it is not null: ratios of 2 and 1/2 make 1."""
    found = mean(frame.with_columns(pl.col(column).log()), column)
    middle, low, high = (None if end is None else math.exp(end) for end in (found.value, found.low, found.high))
    return Estimate(count=found.count, value=middle, low=low, high=high)


def place_in_tables(cell: str) -> tuple[int, str]:
    """What tables order cells by: the start, the grid with the fewest extensions first, then what is beside it."""
    return (_ORDER.index(cell) if cell in _ORDER else len(_ORDER), cell)


def complete_runs(cells: pl.DataFrame) -> pl.DataFrame:
    """(cell, seed) of the runs that finished, the start's included."""
    return cells.filter(pl.col("status") == "complete").select("cell", "seed")


def compared_seeds(cells: pl.DataFrame) -> list[int]:
    """The seeds with which every cell of the grid is complete; where there is none, all seeds.

    Seeds differ in their start, so that a cell which lacks one must not be set beside a cell which has it.
    """
    every = sorted(set(cells["seed"]))
    names = set(grid_cells(cells)["cell"])
    complete = complete_runs(cells)
    return [seed for seed in every if names <= set(complete.filter(pl.col("seed") == seed)["cell"])] or every


def grid_cells(cells: pl.DataFrame) -> pl.DataFrame:
    """The rows of `cells` that belong to the grid: neither the start nor a variation."""
    return cells.filter((pl.col("cell") != SFT) & pl.col("variation").is_null())


def final(evaluation: pl.DataFrame) -> pl.DataFrame:
    """The evaluation that ends each phase, without those between rounds."""
    return evaluation.filter(pl.col("round").is_null())


def by_task(metric: str, evaluation: pl.DataFrame) -> pl.DataFrame:
    """The mean of a metric by cell, seed, round and task, as `value`: "correct", or "correct_level2" for one level."""
    name, _, level = metric.partition("_level")
    frame = evaluation.filter(pl.col("level") == int(level)) if level else evaluation
    grouped = frame.drop_nulls(name).group_by("cell", "seed", "round", "task").agg(pl.col(name).mean().alias("value"))
    return grouped.sort("cell", "seed", "round", "task")


def after_a_failure() -> pl.Expr:
    """Whether an earlier stage of a sample had failed, its stages being in order: staging saves what follows."""
    failed = (~pl.col("passed")).cast(pl.Int64)
    return failed.cum_sum().over(SAMPLE_KEY) > failed


_MEASUREMENT = ("task", "candidate", "verifier", "subject", "calibrated", "simulated")


def distinct_measurements(timings: pl.DataFrame, candidates: pl.DataFrame) -> pl.DataFrame:
    """The trials of training candidates, each measurement once, with the candidate's hash."""
    named = timings.join(candidates.select(*SAMPLE_KEY, "candidate"), on=list(SAMPLE_KEY), nulls_equal=True)
    return named.unique([*_MEASUREMENT, "trial"], maintain_order=True)


def timing_noise(timings: pl.DataFrame, candidates: pl.DataFrame) -> tuple[TimingNoise, ...]:
    """Scatter by protocol; nothing where nothing was timed."""
    if timings.is_empty():
        return ()
    place = list(_MEASUREMENT)
    cut = (pl.len() * 0.1 + 1e-9).floor().cast(pl.Int64)
    ordered = pl.col("runtime_us").sort()
    measured = (
        distinct_measurements(timings, candidates)
        .group_by(place)
        .agg(
            value=ordered.slice(cut, pl.len() - 2 * cut).mean(),
            within=pl.col("runtime_us").std() / pl.col("runtime_us").mean(),
        )
        .sort(place)
    )
    found = []
    for calibrated, simulated in sorted(measured["calibrated", "simulated"].unique().iter_rows()):
        own = measured.filter((pl.col("calibrated") == calibrated) & (pl.col("simulated") == simulated))
        references = own.filter(pl.col("subject") == "reference")
        by_task = references.group_by("task").agg(between=pl.col("value").std() / pl.col("value").mean()).sort("task")
        scatter = by_task.drop_nulls("between")
        found.append(
            TimingNoise(
                calibrated=calibrated,
                simulated=simulated,
                num_tasks=scatter.height,
                num_measurements=references.height,
                between=mean(scatter, "between") if scatter.height else Estimate(count=0),
                within=mean(own.filter(pl.col("subject") == "candidate"), "within"),
            )
        )
    return tuple(found)
