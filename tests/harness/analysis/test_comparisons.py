"""Controls and the noise sweep against their counterparts, and all of it in one report."""

from __future__ import annotations

import json

import polars as pl
import pytest
from tritonrl.core.recipe.extensions import ALL_CELLS
from tritonrl.core.statistics.factorial import GRID
from tritonrl.harness.analysis.analysis import analyse
from tritonrl.harness.analysis.comparisons import COMPARED, compare_controls, sweep_noise
from tritonrl.harness.analysis.findings import Comparison, Estimate
from tritonrl.harness.analysis.rates import by_task, complete_runs, final, grid_cells, rate_over_tasks
from tritonrl.harness.report.sections import as_json
from tritonrl.harness.study.store import Results
from tritonrl.harness.tables import TABLES, write_table

from ..hand_made import RawRow, cells, judged, spent, table

NAMES = ("sft", "none", "c", "t", "msct", "msct+uniform", "c+binary", "t+cv5", "t+cv30")
SHARES = {
    "sft": (0, 0, 0, 0),
    "none": (1, 0, 0, 0),
    "c": (1, 1, 0, 0),
    "t": (1, 1, 1, 1),
    "msct": (1, 1, 1, 0),
    "msct+uniform": (1, 0, 0, 0),
    "c+binary": (1, 1, 1, 0),
    "t+cv5": (1, 1, 1, 0),
    "t+cv30": (1, 0, 0, 0),
}
"""Whether the two samples of task `a` and then of task `b` are correct, with either seed."""


def evaluation(*names: str) -> list[RawRow]:
    """The final evaluation of these cells with two seeds."""
    return [
        row
        for name in names
        for seed in (0, 1)
        for row in judged(name, {"a": SHARES[name][:2], "b": SHARES[name][2:]}, seed)
    ]


def by_pair(found: tuple[Comparison, ...], metric: str = "correct") -> dict[tuple[str, str], Estimate]:
    """The differences on one metric."""
    return {(one.cell, one.counterpart): one.difference for one in found if one.metric == metric}


def test_controls_are_compared_with_their_own_counterpart_and_the_baseline() -> None:
    """A control with the cell of its extensions and with `none`; the start with `none` and the full recipe."""
    found = compare_controls(cells(*NAMES, seeds=(0, 1)), table("evaluation", evaluation(*NAMES)))
    differences = by_pair(found)
    assert {pair: estimate.value for pair, estimate in differences.items()} == {
        ("sft", "none"): pytest.approx(-0.25),
        ("sft", "msct"): pytest.approx(-0.75),
        ("c+binary", "c"): pytest.approx(0.25),
        ("c+binary", "none"): pytest.approx(0.5),
        ("msct+uniform", "msct"): pytest.approx(-0.5),
        ("msct+uniform", "none"): pytest.approx(0.0),
    }
    assert {estimate.count for estimate in differences.values()} == {4}
    assert {(one.num_seeds, one.over) for one in found if one.metric == "correct"} == {(2, "seeds and tasks")}
    assert {one.metric for one in found} == set(COMPARED)


def test_the_start_is_compared_with_the_whole_grid() -> None:
    """The first difference is the sixteen cells' mean minus their start; there is none without one of them."""
    names = ["sft", *(str(cell) for cell in ALL_CELLS)]
    # of sixteen cells four are right on both samples of task `a`, the others on none; the start on one
    rows = [
        row
        for number, name in enumerate(names)
        for seed in (0, 1)
        for row in judged(name, {"a": (1, 0) if name == "sft" else (number < 5,) * 2, "b": (0, 0)}, seed)
    ]
    found = compare_controls(cells(*names, seeds=(0, 1)), table("evaluation", rows))
    assert (found[0].cell, found[0].counterpart, found[0].metric) == (GRID, "sft", "correct")
    assert found[0].difference.value == pytest.approx(4 / 16 / 2 - 0.25)
    assert found[0].difference.count == 4
    some = [row for row in rows if row["cell"] != "mst"]
    without = compare_controls(
        cells(*(name for name in names if name != "mst"), seeds=(0, 1)), table("evaluation", some)
    )
    assert GRID not in {one.cell for one in without}


def test_a_difference_is_of_the_final_evaluations_of_one_level() -> None:
    """Evaluations between rounds are left out, and a level without tasks has no difference."""
    between = [row for seed in (0, 1) for row in judged("c+binary", {"a": [0, 0], "b": [0, 0]}, seed, after=0)]
    rows = [*evaluation("none", "c", "c+binary"), *between]
    found = compare_controls(cells("none", "c", "c+binary", seeds=(0, 1)), table("evaluation", rows))
    assert by_pair(found)["c+binary", "c"].value == pytest.approx(0.25)
    assert by_pair(found, "correct_level1") == by_pair(found)
    assert by_pair(found, "correct_level2")["c+binary", "c"] == Estimate(count=0)


def test_a_failed_cell_is_in_no_comparison() -> None:
    """A control that failed, or whose counterpart did, is not compared with it."""
    found = compare_controls(
        cells(*NAMES, seeds=(0, 1), failed=("msct+uniform", "c")), table("evaluation", evaluation(*NAMES))
    )
    assert set(by_pair(found)) == {("sft", "none"), ("sft", "msct"), ("c+binary", "none")}


def test_a_seed_that_another_cell_lacks_stays_in_the_difference() -> None:
    """Where one cell of the grid has a single seed the others are still compared over both."""
    rows = evaluation("none", "c", "c+binary", "t")
    without = [row for row in rows if (row["cell"], row["seed"]) != ("t", 1)]
    found = cells("none", "c", "c+binary", "t", seeds=(0, 1))
    most = found.filter((pl.col("cell") != "t") | (pl.col("seed") == 0))
    assert by_pair(compare_controls(most, table("evaluation", without))) == by_pair(
        compare_controls(found.filter(pl.col("cell") != "t"), table("evaluation", evaluation("none", "c", "c+binary")))
    )


def test_the_sweep_compares_every_noise_with_calibrated_timing() -> None:
    """Rates and differences by hand, in the order of the sweep, each setting named by how noisy it is."""
    found = sweep_noise(cells(*NAMES, seeds=(0, 1)), table("evaluation", evaluation(*NAMES)), "measured")
    rows = [one for one in found if one.metric == "correct"]
    assert [(one.cell, one.noise, one.cv, one.counterpart) for one in rows] == [
        ("none", "single", None, "t"),
        ("t", "calibrated", None, None),
        ("t+cv5", "injected", 0.05, "t"),
        ("t+cv30", "injected", 0.3, "t"),
    ]
    assert [one.rate.value for one in rows] == [0.25, 1.0, 0.75, 0.25]
    assert [one.difference.value for one in rows] == [
        pytest.approx(-0.75),
        None,
        pytest.approx(-0.25),
        pytest.approx(-0.75),
    ]
    assert [one.difference.count for one in rows] == [4, 0, 4, 4]
    assert [(one.num_seeds, one.over) for one in rows] == [
        (2, "seeds and tasks"),
        (2, "nothing"),
        (2, "seeds and tasks"),
        (2, "seeds and tasks"),
    ]
    assert len(found) == len(rows) * len(COMPARED)


def test_a_sweep_without_its_counterpart_has_rates_alone() -> None:
    """Without the calibrated cell nothing is compared; without injected noise or a timing there is no sweep."""
    rows = table("evaluation", evaluation(*NAMES))
    alone = sweep_noise(cells("none", "t+cv5", seeds=(0, 1)), rows, "measured")
    assert {(one.counterpart, one.difference) for one in alone} == {(None, Estimate(count=0))}
    assert alone[0].rate.value == 0.25
    assert sweep_noise(cells("none", "t", seeds=(0, 1)), rows, "measured") == ()
    assert sweep_noise(cells(*NAMES, seeds=(0, 1)), rows, "no timing") == ()


def test_rates_are_by_task_of_what_was_judged() -> None:
    """Samples are averaged by task and by round; a sample that the audit could not judge counts for nothing."""
    rows = [
        *judged("m", {"a": [1, 0], "b": [1, 1]}),
        *judged("m", {"c": [1]}, level=2),
        *judged("m", {"a": [0]}, after=0),
    ]
    rows.append({**rows[0], "sample": 9, "correct": None})
    frame = table("evaluation", rows)
    assert set(by_task("correct", frame).iter_rows()) == {
        ("m", 0, 0, "a", 0.0),
        ("m", 0, None, "a", 0.5),
        ("m", 0, None, "b", 1.0),
        ("m", 0, None, "c", 1.0),
    }
    assert by_task("correct_level2", frame)["task"].to_list() == ["c"]
    assert final(frame).height == len(rows) - 1


def test_the_grid_is_neither_the_start_nor_a_variation() -> None:
    """Controls, noise and the start are complete runs, and none is a cell of the grid."""
    found = cells(*NAMES, failed=("c",))
    assert set(grid_cells(found)["cell"]) == {"none", "c", "t", "msct"}
    assert set(complete_runs(found)["cell"]) == set(NAMES) - {"c"}


def test_a_rate_over_one_task_does_not_look_certain() -> None:
    """Ten samples of one task that all fail are one fact, and the interval is as wide as that."""
    estimate = rate_over_tasks([0.0] * 10, ["a"] * 10)
    assert (estimate.count, estimate.value, estimate.low) == (10, 0.0, 0.0)
    assert estimate.high is not None
    assert estimate.high > 0.5
    assert rate_over_tasks([], []) == Estimate(count=0)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A folder with grid cells, controls, a sweep, evaluations between rounds and timings, all by hand."""
    root = tmp_path_factory.mktemp("hand_made")
    seconds = {"none": 10.0, "t": 20.0, "c": 40.0, "msct": 40.0}
    between = [row for seed in (0, 1) for row in judged("t", {"a": [1], "b": [0]}, seed, after=0)]
    place = {"cell": "none", "seed": 0, "phase": "rl", "round": 0, "task": "a", "sample": 0}
    timed = {"verifier": "training", "subject": "reference", "simulated": False, "calibrated": False, "trial": 0}
    frames = {
        "cells": cells(*NAMES, seeds=(0, 1)),
        "evaluation": table("evaluation", [*evaluation(*NAMES), *between]),
        "rounds": table(
            "rounds",
            [
                row
                for name in NAMES[1:]
                for seed in (0, 1)
                for row in spent(name, [seconds.get(name, 1.0) / 2] * 2, seed)
            ],
        ),
        "candidates": table(
            "candidates",
            [
                {
                    **place,
                    "slot": slot,
                    "level": 1,
                    "candidate": f"source {slot}",
                    "audit_correct": True,
                    "correct": True,
                }
                for slot in (0, 1)
            ],
        ),
        "timings": table(
            "timings",
            [{**place, **timed, "slot": slot, "runtime_us": us} for slot, us in ((0, 90.0), (1, 110.0))],
        ),
    }
    for name, one in TABLES.items():
        write_table(one, frames.get(name, table(name, [])), root / f"{name}.parquet")
    (root / "run.json").write_text(json.dumps({"timing_mode": "measured", "backend": "interpret"}))
    return Results(root=root)


def test_a_report_keeps_grid_controls_and_rounds_apart(results: Results) -> None:
    """Controls are beside the grid, evaluations between rounds in the budget alone, and all numbers as by hand."""
    found = analyse(results)
    assert [fact.cell for fact in found.cells] == ["none", "c", "t", "msct"]
    assert {fact.cell for fact in found.controls} == {"msct+uniform", "c+binary", "t+cv5", "t+cv30"}
    assert found.samples_per_task == 2
    assert next(fact.correct.count for fact in found.cells if fact.cell == "t") == 8
    assert found.budget.seconds == 10.0
    # `t` is where its first round left it: one of the two tasks solved; `c` and `msct` are nearer to their start
    assert {cell.cell: cell.correct.value for cell in found.budget.cells} == {
        "none": 0.25,
        "c": 0.0,
        "t": 0.5,
        "msct": 0.0,
    }
    assert any("2 cells had finished no round" in said and said.endswith("start: c, msct.") for said in found.remarks)
    assert {cell.cell: cell.num_evaluations for cell in found.budget.cells} == {"none": 2, "c": 2, "t": 3, "msct": 2}
    assert by_pair(found.comparisons)["msct+uniform", "msct"].value == pytest.approx(-0.5)
    assert {one.cell for one in found.noise_sweep} == {"none", "t", "t+cv5", "t+cv30"}
    assert found.timing_noise[0].between.value == pytest.approx(2**0.5 / 10)


def test_the_data_form_has_every_difference(results: Results) -> None:
    """The JSON form of a report carries each comparison with its size and how many pairs it is over."""
    found = analyse(results)
    plain = json.loads(as_json(found))
    written = {(one["cell"], one["counterpart"], one["metric"]): one["difference"] for one in plain["comparisons"]}
    assert len(written) == len(found.comparisons)
    for one in found.comparisons:
        difference = written[one.cell, one.counterpart, one.metric]
        assert (difference["value"], difference["count"]) == (one.difference.value, one.difference.count)
