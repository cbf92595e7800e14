"""Equal verification seconds, costs and staging's saving, from tables whose answers are worked out by hand."""

from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonrl.harness.analysis.budget import (
    at_equal_seconds,
    cost_effects,
    held_out_points,
    learning_points,
    staging_saving,
)
from tritonrl.harness.analysis.findings import METRICS, Budget

from ..hand_made import RawRow, cells, judged, spent, table

START = judged("sft", {"a": [0, 0], "b": [1, 0]})
ENDS = [*judged("none", {"a": [1, 1], "b": [1, 0]}), *judged("m", {"a": [1, 1], "b": [1, 1]})]
BETWEEN = judged("m", {"a": [1, 0], "b": [1, 1]}, after=0)


def view(evaluation: list[RawRow], rounds: list[RawRow], *names: str, failed: tuple[str, ...] = ()) -> Budget:
    """The view of the cells `none` and `m`, and of others that are named."""
    found = cells("sft", "none", "m", *names, failed=failed)
    return at_equal_seconds(found, table("rounds", rounds), table("evaluation", evaluation))


def rates(budget: Budget) -> dict[str, float | None]:
    """The rate of correct samples at the budget by cell."""
    return {cell.cell: cell.correct.value for cell in budget.cells}


def test_a_run_stands_at_the_end_of_a_round() -> None:
    """The first round of `m` ends nearest to the 20 s of `none`: half of the way on each task, for 30 s."""
    budget = view([*START, *ENDS], [*spent("none", [10, 10]), *spent("m", [30, 50])])
    assert budget.seconds == 20.0
    assert rates(budget) == {"none": 0.75, "m": pytest.approx((0.5 + 0.75) / 2)}
    facts = {cell.cell: (cell.total_seconds, cell.num_evaluations) for cell in budget.cells}
    assert facts == {"none": (20.0, 2), "m": (80.0, 2)}
    assert {cell.cell: (cell.num_rounds, cell.spent_seconds) for cell in budget.cells} == {
        "none": (2.0, 20.0),
        "m": (1.0, 30.0),
    }
    effects = budget.effects["correct"]
    assert effects is not None
    assert effects.effect("m").estimate == pytest.approx(0.625 - 0.75)
    assert (effects.num_tasks, effects.num_seeds, effects.over) == (2, 1, "tasks")


@pytest.mark.parametrize(
    ("seconds", "rate"),
    [([5, 5], 0.25), ([10, 10], 0.75), ([15, 15], 0.75), ([20, 30], 0.75), ([30, 30], 1.0), ([40, 40], 1.0)],
)
def test_the_rate_is_that_of_the_nearest_rounds_evaluation(seconds: list[float], rate: float) -> None:
    """`m` ends its rounds at 30 and 80 s: near 0 s it is its start, whatever the first round was to become."""
    budget = view([*START, *ENDS, *BETWEEN], [*spent("none", seconds), *spent("m", [30, 50])])
    assert budget.seconds == sum(seconds)
    assert rates(budget)["m"] == pytest.approx(rate)
    assert {cell.cell: cell.num_evaluations for cell in budget.cells} == {"none": 2, "m": 3}


@pytest.mark.parametrize(("seconds", "finished", "rate"), [(4.0, 0, 0.25), (14.0, 1, 0.5), (30.0, 3, 0.875)])
def test_rounds_without_an_evaluation_lie_between(seconds: float, finished: int, rate: float) -> None:
    """Of four rounds the second was evaluated: the first and the third are half way on either side, task by task."""
    between = judged("m", {"a": [1, 0], "b": [1, 1]}, after=1)
    budget = view([*START, *ENDS, *between], [*spent("none", [seconds]), *spent("m", [10, 10, 10, 10])])
    own = {cell.cell: cell for cell in budget.cells}["m"]
    assert (own.num_rounds, own.spent_seconds) == (finished, finished * 10.0)
    assert own.correct.value == pytest.approx(rate)


def test_controls_and_failed_cells_set_no_budget() -> None:
    """The smallest total is that of the grid's complete runs, and only they have a rate at it."""
    others = [*spent("c+binary", [1]), *spent("s", [2]), *spent("t+cv5", [3])]
    evaluation = [*START, *ENDS, *judged("c+binary", {"a": [1]}), *judged("t+cv5", {"a": [1]})]
    rounds = [*spent("none", [10, 10]), *spent("m", [30, 50]), *others]
    budget = view(evaluation, rounds, "c+binary", "s", "t+cv5", failed=("s",))
    assert budget.seconds == 20.0
    assert [cell.cell for cell in budget.cells] == ["none", "m"]


def test_cells_are_listed_as_in_the_grid() -> None:
    """Fewest extensions first, and among as many in the order of the grid."""
    names = ("mt", "t", "ms", "m", "none")
    evaluation = [*START, *(row for name in names for row in judged(name, {"a": [1], "b": [0]}))]
    rounds = [row for name in names for row in spent(name, [10])]
    found = at_equal_seconds(cells("sft", *names), table("rounds", rounds), table("evaluation", evaluation))
    assert [cell.cell for cell in found.cells] == ["none", "m", "t", "ms", "mt"]


def test_without_a_start_or_seconds_there_is_no_budget() -> None:
    """Nothing is extrapolated to before the first evaluation, and no seconds buy nothing."""
    nothing = Budget(seconds=None, cells=(), effects=dict.fromkeys(METRICS))
    assert view(ENDS, [*spent("none", [10, 10]), *spent("m", [30, 50])]) == nothing
    assert view([*START, *ENDS], [*spent("none", [0, 0]), *spent("m", [30, 50])]) == nothing
    assert at_equal_seconds(table("cells", []), table("rounds", []), table("evaluation", [])) == nothing


def test_seeds_share_one_budget() -> None:
    """With two seeds the budget is the least of all runs, and a cell's share of its own seconds a mean over seeds."""
    rows = [row for seed in (0, 1) for row in judged("sft", {"a": [0], "b": [0]}, seed)]
    rows += [row for seed in (0, 1) for row in judged("none", {"a": [1], "b": [1]}, seed)]
    rounds = [*spent("none", [10, 30], seed=0), *spent("none", [10, 10], seed=1)]
    budget = at_equal_seconds(cells("sft", "none", seeds=(0, 1)), table("rounds", rounds), table("evaluation", rows))
    assert budget.seconds == 20.0
    assert budget.cells[0].total_seconds == 30.0
    # one seed stands at its first round's end, after 10 s, the other at its second's, after 20
    assert (budget.cells[0].num_rounds, budget.cells[0].spent_seconds) == (1.5, 15.0)
    assert budget.cells[0].correct.value == pytest.approx((0.5 + 1.0) / 2)
    assert budget.cells[0].correct.count == 4


def test_held_out_points_are_where_runs_were_evaluated() -> None:
    """The start after no round, the evaluations between rounds and the last, with the samples of all seeds."""
    rounds = [*spent("none", [10, 10]), *spent("m", [30, 50])]
    found = held_out_points(
        cells("sft", "none", "m"), table("rounds", rounds), table("evaluation", [*START, *ENDS, *BETWEEN])
    )
    assert [(point.cell, point.num_rounds, point.correct.value) for point in found] == [
        ("none", 0, 0.25),
        ("none", 2, 0.75),
        ("m", 0, 0.25),
        ("m", 1, 0.75),
        ("m", 2, 1.0),
    ]
    assert {point.correct.count for point in found} == {2}


def sampled(index: int, marks: list[tuple[str, int, int]]) -> list[RawRow]:
    """Rows of `candidates` in one round: (task, level, whether the audit finds it correct)."""
    place = {"cell": "none", "seed": 0, "phase": "rl", "round": index}
    return [
        {**place, "slot": slot, "task": task, "level": level, "sample": 0, "audit_correct": bool(mark)}
        for slot, (task, level, mark) in enumerate(marks)
    ]


def test_a_learning_point_is_before_its_round() -> None:
    """A round's candidates come from a model that had cost the earlier rounds; levels count alike."""
    rounds = [*spent("none", [10, 20]), *spent("none", [30, 40], seed=1)]
    candidates = sampled(1, [("a", 1, 1), ("b", 1, 1), ("c", 1, 0), ("d", 2, 1)])
    first, second = learning_points(table("rounds", rounds), table("candidates", candidates))
    assert (first.round, first.seconds, first.correct.count, first.correct.value) == (0, 0.0, 0, None)
    assert (second.round, second.seconds, second.mean_reward) == (1, 20.0, pytest.approx(0.1))
    assert second.correct.value == pytest.approx((2 / 3 + 1) / 2)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from((1, 2)), st.integers(0, 1)), min_size=1))
def test_a_learning_rate_and_its_interval_are_shares(marks: list[tuple[str, int, int]]) -> None:
    """The interval holds the mean of the levels' own rates, stays within [0, 1] and is never a single point."""
    named = [(f"{task}{level}", level, mark) for task, level, mark in marks]
    point = learning_points(table("rounds", spent("none", [10])), table("candidates", sampled(0, named)))[0]
    levels = {level: [mark for _, of, mark in named if of == level] for _, level, _ in named}
    value, low, high = point.correct.value, point.correct.low, point.correct.high
    assert value == pytest.approx(sum(sum(own) / len(own) for own in levels.values()) / len(levels))
    assert value is not None
    assert low is not None
    assert high is not None
    assert 0.0 <= low <= value + 1e-12
    assert value - 1e-12 <= high <= 1.0
    assert high - low > 1e-6


def test_a_cost_is_a_ratio_of_seconds_a_candidate() -> None:
    """`m` takes three times as long a candidate with both seeds; controls and failed cells count for nothing."""
    rounds = [
        row
        for seed, base in ((0, 1.0), (1, 2.0))
        for row in (
            *spent("none", [base, 3 * base], seed, num_candidates=4),
            *spent("m", [6 * base, 6 * base], seed, num_candidates=4),
            *spent("msct+uniform", [500.0], seed),
            *spent("s", [500.0], seed),
        )
    ]
    found = cost_effects(cells("none", "m", "s", "msct+uniform", seeds=(0, 1), failed=("s",)), table("rounds", rounds))
    assert found is not None
    assert found.num_cells == 2
    estimate = found.effect("m").estimate
    assert estimate is not None
    assert math.exp(estimate) == pytest.approx(3.0)
    assert cost_effects(cells("none"), table("rounds", spent("none", [0.0]))) is None


def staged(cell: str, sample: int, steps: list[tuple[bool, float]], verifier: str = "training") -> list[RawRow]:
    """Rows of `stages` of one candidate: whether each stage passed, and its seconds."""
    place = {"cell": cell, "seed": 0, "phase": "rl", "round": 0, "slot": sample, "sample": 0, "task": f"task{sample}"}
    return [
        {**place, "verifier": verifier, "stage_index": index, "passed": passed, "stage_s": seconds}
        for index, (passed, seconds) in enumerate(steps)
    ]


def test_staging_saves_what_follows_a_failure() -> None:
    """Of 20 s of exhaustive verification 7 s came after a failure, and the failing stage itself is not saved."""
    rows = [
        *staged("none", 0, [(True, 1.0), (False, 2.0), (False, 3.0), (True, 4.0)]),
        *staged("none", 1, [(True, 4.0), (True, 3.0), (True, 2.0), (True, 1.0)]),
        *staged("s", 0, [(True, 100.0), (False, 100.0)]),
        *staged("none", 0, [(False, 50.0), (True, 50.0)], verifier="audit"),
        *staged("c+binary", 0, [(False, 50.0), (True, 50.0)]),
    ]
    saving = staging_saving(cells("none", "s", "c+binary"), table("stages", rows).sample(fraction=1.0, shuffle=True))
    assert (saving.count, saving.value) == (2, pytest.approx(0.35))
    assert (saving.low, saving.high) == (pytest.approx(0.0), pytest.approx(0.7))
    only_staged = table("stages", rows).filter(pl.col("cell") == "s")
    assert staging_saving(cells("s"), only_staged).count == 0
