"""Cells beside the grid against their counterparts in it: the reward controls, the start, and the noise sweep.

A difference is over the pairs of seed and task that both cells were judged on, by the same audit with the same sampling
seeds, so tasks and starts cancel. A control is compared with the cell that has its extensions and another reward, and
with the baseline; the supervised start, which is the control without reinforcement learning, with the baseline and the
full recipe. In the sweep every setting is compared with calibrated timing.
"""

from __future__ import annotations

import polars as pl

from ...core.recipe.extensions import NOISE_SWEEP, CellSpec
from ...core.statistics.factorial import GRID, HALF, MEANS, Difference, Response, compare
from ..study.rows import SFT
from .findings import Comparison, Estimate, NoiseSetting
from .rates import by_task, complete_runs, final, rate_over_tasks

COMPARED = ("correct", "correct_level1", "correct_level2")
"""The metrics that differences are given for."""

_CALIBRATED = "t"


def compare_controls(cells: pl.DataFrame, evaluation: pl.DataFrame) -> tuple[Comparison, ...]:
    """Differences of each control, and of the start, to their counterparts; the first is what training itself did."""
    names = set(complete_runs(cells)["cell"])
    pairs = [(GRID if MEANS[GRID] <= names else HALF, SFT), (SFT, "none"), (SFT, "msct")]
    for name in sorted(names - {SFT}):
        spec = CellSpec.parse(name)
        if spec.variation is not None and spec.noise_cv is None:
            pairs += [(name, counterpart) for counterpart in dict.fromkeys((str(spec.extensions), "none"))]
    known = names | {name for name, cells_of in MEANS.items() if cells_of <= names}
    present = [pair for pair in pairs if set(pair) <= known]
    return tuple(
        Comparison(
            cell=pair[0],
            counterpart=pair[1],
            metric=metric,
            num_seeds=difference.num_seeds if difference else 0,
            over=difference.over if difference else "nothing",
            difference=_estimate(difference),
        )
        for metric in COMPARED
        for pair, difference in zip(present, _differences(metric, cells, evaluation, present), strict=True)
    )


def sweep_noise(cells: pl.DataFrame, evaluation: pl.DataFrame, timing: str) -> tuple[NoiseSetting, ...]:
    """The settings of the noise sweep that were run; none where no cell had noise injected, or nothing was timed."""
    names = set(complete_runs(cells)["cell"])
    specs = [spec for spec in NOISE_SWEEP if str(spec) in names]
    if timing == "no timing" or not any(spec.noise_cv for spec in specs):
        return ()
    counterpart = _CALIBRATED if _CALIBRATED in names else None
    found = []
    for metric in COMPARED:
        pairs = [(str(spec), _CALIBRATED) for spec in specs if counterpart and str(spec) != _CALIBRATED]
        differences = dict(zip(pairs, _differences(metric, cells, evaluation, pairs), strict=True))
        shares = by_task(metric, final(evaluation).join(complete_runs(cells), on=["cell", "seed"]))
        for spec in specs:
            own = shares.filter(pl.col("cell") == str(spec))
            difference = differences.get((str(spec), _CALIBRATED))
            found.append(
                NoiseSetting(
                    cell=str(spec),
                    noise=_describe(spec),
                    cv=spec.noise_cv,
                    metric=metric,
                    rate=rate_over_tasks(own["value"].to_list(), own["task"].to_list()),
                    counterpart=counterpart if str(spec) != _CALIBRATED else None,
                    num_seeds=own["seed"].n_unique(),
                    over=difference.over if difference else "nothing",
                    difference=_estimate(difference),
                )
            )
    return tuple(found)


def _describe(spec: CellSpec) -> str:
    if spec.noise_cv is not None:
        return "injected"
    return "calibrated" if spec.extensions.timing else "single"


def _differences(
    metric: str, cells: pl.DataFrame, evaluation: pl.DataFrame, pairs: list[tuple[str, str]]
) -> tuple[Difference | None, ...]:
    shares = by_task(metric, final(evaluation).join(complete_runs(cells), on=["cell", "seed"]))
    responses = [
        Response(cell=str(cell), seed=int(seed), task=str(task), value=float(value))
        for cell, seed, _, task, value in shares.iter_rows()
    ]
    return compare(responses, pairs)


def _estimate(found: Difference | None) -> Estimate:
    return Estimate(count=0) if found is None else Estimate.over(found.num_pairs, found.interval)
