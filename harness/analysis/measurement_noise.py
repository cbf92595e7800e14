"""How noisy the timing was, read from the `timings` table: fourth research question, first half.

Repeated measurements of one thing are there without asking: a task's reference is measured again with every candidate
that is timed for it. A single measurement is its one trial, a calibrated one the mean of its trials trimmed by 10% at
each end. A candidate's verdict is computed once and shared by the cells, so each counts once.
"""

from __future__ import annotations

import polars as pl

from .findings import Estimate, TimingNoise
from .rates import mean

_SAMPLE = ("cell", "seed", "phase", "round", "slot", "sample")


_MEASUREMENT = ("task", "candidate", "verifier", "subject", "calibrated", "simulated")


def distinct_measurements(timings: pl.DataFrame, candidates: pl.DataFrame) -> pl.DataFrame:
    """The trials of training candidates, each measurement once, with the candidate's hash."""
    named = timings.join(candidates.select(*_SAMPLE, "candidate"), on=list(_SAMPLE), nulls_equal=True)
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
