"""How noisy the timing was, from trials whose scatter is worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from tritonrl.harness.analysis.findings import TimingNoise
from tritonrl.harness.analysis.rates import timing_noise

from ..hand_made import RawRow, table


def timed(
    slot: int, task: str, subjects: dict[str, Sequence[float]], cell: str = "none", calibrated: bool = False
) -> list[RawRow]:
    """Rows of `timings` of the candidate in this slot."""
    place = {"cell": cell, "seed": 0, "phase": "rl", "round": 0, "slot": slot, "task": task, "sample": 0}
    protocol = {"verifier": "training", "simulated": False, "calibrated": calibrated}
    return [
        {**place, **protocol, "subject": subject, "trial": trial, "runtime_us": runtime}
        for subject, runtimes in subjects.items()
        for trial, runtime in enumerate(runtimes)
    ]


def noise(rows: list[RawRow]) -> tuple[TimingNoise, ...]:
    """The scatter in these rows; the candidate of a slot is the same in every cell."""
    columns = ("cell", "seed", "phase", "round", "slot", "sample", "task")
    places = {tuple(row[column] for column in columns) for row in rows}
    named = [dict(zip(columns, place, strict=True)) for place in places]
    return timing_noise(
        table("timings", rows), table("candidates", [{**row, "candidate": f"source {row['slot']}"} for row in named])
    )


def test_single_measurements_scatter_between_candidates() -> None:
    """A reference of 90 and 110 scatters by sqrt(200) / 100; one trial has no scatter within, one reference none."""
    rows = [
        *timed(0, "a", {"candidate": [50.0], "reference": [90.0]}),
        *timed(1, "a", {"candidate": [70.0], "reference": [110.0], "control": [500.0], "reference_tf32": [1.0]}),
        *timed(2, "b", {"candidate": [10.0], "reference": [20.0]}),
    ]
    (found,) = noise(rows)
    assert (found.calibrated, found.simulated, found.num_tasks, found.num_measurements) == (False, False, 1, 3)
    assert (found.between.count, found.between.value) == (1, pytest.approx(math.sqrt(200.0) / 100.0))
    assert (found.within.count, found.within.value) == (0, None)


def test_a_calibrated_measurement_is_its_trimmed_mean() -> None:
    """Two trials of twenty are cut at each end, so that outliers change neither 100 nor 110."""
    noisy = [1.0, 2.0, *[100.0] * 16, 900.0, 1000.0]
    rows = [
        *timed(0, "a", {"candidate": [4.0, 6.0], "reference": noisy}, calibrated=True),
        *timed(1, "a", {"candidate": [5.0, 5.0], "reference": [110.0] * 20}, calibrated=True),
    ]
    (found,) = noise(rows)
    assert found.calibrated
    assert found.between.value == pytest.approx(math.sqrt(50.0) / 105.0)
    assert (found.within.count, found.within.value) == (2, pytest.approx(math.sqrt(2.0) / 5.0 / 2))


def test_a_candidate_that_cells_share_counts_once() -> None:
    """The evidence of one candidate is measured once, in however many cells it is met."""
    rows = [
        *timed(0, "a", {"candidate": [50.0], "reference": [90.0]}),
        *timed(1, "a", {"candidate": [70.0], "reference": [110.0]}),
    ]
    again = timed(0, "a", {"candidate": [50.0], "reference": [90.0]}, cell="m")
    assert noise([*rows, *again]) == noise(rows)


def test_protocols_are_told_apart() -> None:
    """Single and calibrated measurements of one task each have their own scatter, single ones first."""
    rows = [
        row
        for slot, (single, calibrated) in enumerate([(90.0, 99.0), (110.0, 101.0)])
        for row in (
            *timed(slot, "a", {"candidate": [50.0], "reference": [single]}),
            *timed(slot, "a", {"candidate": [50.0], "reference": [calibrated] * 10}, cell="t", calibrated=True),
        )
    ]
    single, calibrated = noise(rows)
    assert (single.calibrated, calibrated.calibrated) == (False, True)
    assert single.between.value == pytest.approx(math.sqrt(200.0) / 100.0)
    assert calibrated.between.value == pytest.approx(math.sqrt(2.0) / 100.0)


def test_tasks_count_alike() -> None:
    """The scatter is a mean over tasks, whatever their runtimes and however often they were measured."""
    rows = [
        row
        for slot, (task, runtime) in enumerate([("a", 90.0), ("a", 110.0), ("b", 5.0), ("b", 5.0), ("b", 5.0)])
        for row in timed(slot, task, {"candidate": [1.0], "reference": [runtime]})
    ]
    (found,) = noise(rows)
    assert (found.num_tasks, found.num_measurements) == (2, 5)
    assert found.between.value == pytest.approx(math.sqrt(200.0) / 100.0 / 2)


def test_without_timings_there_is_no_scatter() -> None:
    """A run without a timing has nothing to say."""
    assert timing_noise(table("timings", []), table("candidates", [])) == ()
