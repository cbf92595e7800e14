"""Crossed random effects: variances known by hand, coverage and power by simulation, and effects as they are told."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tritonrl.core.recipe.extensions import ALL_CELLS
from tritonrl.core.statistics.factorial import TERMS, Response, analyse, compare, solve
from tritonrl.core.statistics.intervals import detectable_multiple, joint_confidence, p_value
from tritonrl.core.statistics.variance_components import Uncertainty, find_components, find_uncertainties

Reals = NDArray[np.float64]
PAIR = np.array([[1.0, -1.0]])
NUM_SEEDS, NUM_TASKS = 3, 8


def contrast_of(values: Reals) -> Reals:
    """Two cells whose difference is `values`, (seeds, tasks)."""
    return np.stack([values, np.zeros_like(values)])


def responses(values: Reals) -> list[Response]:
    """The values, (16, seeds, tasks), as responses of the full grid."""
    return [
        Response(cell=ALL_CELLS[cell], seed=seed, task=str(task), value=float(value))
        for (cell, seed, task), value in np.ndenumerate(values)
    ]


def grids(count: int, seed: int, run: float = 0.03) -> Reals:
    """Noise of a run, of a task in a cell, and of the rest, over what seeds and tasks do to all cells alike."""
    draw = np.random.default_rng(seed).normal
    return (
        draw(0.0, 0.2, (count, 1, NUM_SEEDS, NUM_TASKS))
        + draw(0.0, run, (count, 16, NUM_SEEDS, 1))
        + draw(0.0, 0.05, (count, 16, 1, NUM_TASKS))
        + draw(0.0, 0.05, (count, 16, NUM_SEEDS, NUM_TASKS))
    )


def signs(letter: str) -> Reals:
    """-1 and +1 by cell, shaped to add to a grid."""
    return np.array([1.0 if letter in str(cell) else -1.0 for cell in ALL_CELLS])[:, None, None]


def test_the_mean_squares_are_those_of_a_two_way_layout() -> None:
    """For the differences ((0, 4), (2, 14)): MS seeds 36, MS tasks 64, MS rest 16, so a variance of 84 / 4."""
    error = find_uncertainties(contrast_of(np.array([[0.0, 4.0], [2.0, 14.0]])), PAIR)[0]
    assert error.standard_error == pytest.approx(math.sqrt(21.0))
    assert error.degrees_of_freedom == 1.0


def test_a_component_that_shows_no_variance_leaves_the_others_freedom() -> None:
    """Where seeds differ less than the rest does the error is that of the tasks, and with neither that of the rest."""
    tasks_alone = np.array([[0.0, 6.0, 12.0], [2.0, 4.0, 12.0]])  # MS seeds 0, tasks 62, rest 2
    error = find_uncertainties(contrast_of(tasks_alone), PAIR)[0]
    assert (error.standard_error, error.degrees_of_freedom) == (pytest.approx(math.sqrt(62.0 / 6)), 2.0)
    rest_alone = np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]])  # MS seeds and tasks 0, rest 2
    error = find_uncertainties(contrast_of(rest_alone), PAIR)[0]
    assert (error.standard_error, error.degrees_of_freedom) == (pytest.approx(math.sqrt(2.0 / 6)), 2.0)


def test_where_seeds_differ_their_number_is_the_freedom() -> None:
    """Three seeds that scatter more than the rest leave two degrees of freedom, whatever the number of tasks."""
    error = find_uncertainties(contrast_of(np.array([[-3.0], [0.0], [3.0]]) + np.tile([0.0, 1.0], (3, 20))), PAIR)[0]
    assert error.degrees_of_freedom == 2.0


def test_one_seed_and_one_task_are_one_sample_of_the_other() -> None:
    """With one seed, or one task, the error is the plain one of a mean; with one of each there is none."""
    numbers = np.array([1.0, 2.0, 4.0, 9.0])
    plain = float(numbers.std(ddof=1)) / 2.0
    for shape in ((1, 4), (4, 1)):
        error = find_uncertainties(contrast_of(numbers.reshape(shape)), PAIR)[0]
        assert (error.standard_error, error.degrees_of_freedom) == (pytest.approx(plain), 3.0)
    assert find_uncertainties(contrast_of(np.array([[5.0]])), PAIR) == (Uncertainty(),)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 50.0))
def test_errors_scale_and_what_cells_share_cancels(seed: int, factor: float) -> None:
    """Errors grow with the unit, and what a seed or a task does to all cells alike changes none."""
    draw = np.random.default_rng(seed).normal
    values, weights = draw(size=(4, 3, 5)), draw(size=(3, 4))
    weights -= weights.mean(axis=1, keepdims=True)
    plain = find_uncertainties(values, weights)
    moved = find_uncertainties(values * factor + draw(size=(1, 3, 5)), weights)
    for before, after in zip(plain, moved, strict=True):
        assert before.standard_error is not None
        assert before.degrees_of_freedom is not None
        assert before.standard_error > 0.0
        assert before.degrees_of_freedom >= 1.0
        assert after.standard_error == pytest.approx(before.standard_error * factor, rel=1e-6)
        assert after.degrees_of_freedom == pytest.approx(before.degrees_of_freedom, rel=1e-6)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(2, 30))
def test_components_predict_the_error_that_they_come_from(seed: int, num_seeds: int, num_tasks: int) -> None:
    """At the sizes of the data a prediction is the error found there; tasks without end leave what seeds differ by."""
    draw = np.random.default_rng(seed).normal
    values = draw(size=(2, num_seeds, num_tasks)) + draw(size=(2, num_seeds, 1)) + draw(size=(2, 1, num_tasks))
    (components,) = find_components(values, PAIR)
    (found,) = find_uncertainties(values, PAIR)
    predicted = components.predict(num_seeds, num_tasks)
    assert predicted.standard_error == pytest.approx(found.standard_error, rel=1e-9)
    assert predicted.degrees_of_freedom == found.degrees_of_freedom
    many = components.predict(num_seeds, 10**9).standard_error
    assert many == pytest.approx(math.sqrt(components.seeds / num_seeds), abs=1e-3)
    with pytest.raises(ValueError, match="two seeds"):
        find_components(values[:, :1], PAIR)


def judged(values: Reals, effect: Reals) -> tuple[Reals, Reals, Reals]:
    """Estimates of the fifteen effects minus the true ones, their standard errors and their degrees of freedom."""
    weights = solve(ALL_CELLS).weights
    errors = find_uncertainties(values, weights)
    assert all(error.standard_error and error.degrees_of_freedom for error in errors)
    return (
        weights @ values.mean(axis=(1, 2)) - effect,
        np.array([error.standard_error for error in errors]),
        np.array([error.degrees_of_freedom for error in errors]),
    )


def p_values(values: Reals, effect: Reals) -> Reals:
    """The chance of estimates that are at least so far from the true effects: below 0.05 an interval misses."""
    offsets, errors, freedoms = judged(values, effect)
    return np.array([p_value(*pair) for pair in zip(offsets / errors, freedoms, strict=True)])


@pytest.mark.parametrize("run", [0.0, 0.03, 0.1])
def test_intervals_hold_what_they_say(run: float) -> None:
    """Of 200 simulated grids 93% to 99% of intervals hold the truth, and nine in ten families of joint ones."""
    truth = np.array([0.1 if name == "m" else 0.0 for name in TERMS])
    chances = np.array([p_values(values + 0.1 * signs("m") / 2, truth) for values in grids(200, seed=11, run=run)])
    assert 0.93 <= (chances >= 0.05).mean() <= 0.99
    assert (chances.min(axis=1) >= 1.0 - joint_confidence(0.95, len(TERMS))).mean() >= 0.90


def test_a_detectable_effect_is_detected_four_times_in_five() -> None:
    """Of 400 simulated grids with an effect of the typical detectable size about 80% tell it from zero."""
    nothing, place = np.zeros(len(TERMS)), TERMS.index("c")
    blanks = [judged(values, nothing) for values in grids(100, seed=1)]
    size = np.mean([errors[place] * detectable_multiple(freedoms[place]) for _, errors, freedoms in blanks])
    seen = [p_values(values + size * signs("c") / 2, nothing)[place] < 0.05 for values in grids(400, seed=2)]
    assert 0.72 <= np.mean(seen) <= 0.88


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1), st.floats(-0.2, 0.2))
def test_an_effects_numbers_agree_with_each_other(seed: int, size: float) -> None:
    """An interval excludes 0 just where p < 0.05, the joint one is wider, and where it excludes 0 Holm confirms."""
    found = analyse(responses(grids(1, seed)[0] + size * signs("s") / 2))
    assert found is not None
    for effect in found.effects:
        assert effect.p_value is not None
        assert effect.p_adjusted is not None
        assert effect.joint_low is not None
        assert effect.joint_high is not None
        assert effect.low is not None
        assert effect.high is not None
        assert effect.joint_low < effect.low < effect.high < effect.joint_high
        assert effect.conclusive == (effect.p_value < 0.05)
        assert effect.p_value <= effect.p_adjusted
        if effect.joint_low > 0.0 or effect.joint_high < 0.0:
            assert effect.confirmed
        assert effect.detectable is not None
        assert effect.detectable > (effect.high - effect.low) / 2


def test_without_any_noise_an_effect_is_certain_and_its_absence_too() -> None:
    """Where nothing varies a planted effect has p = 0, the others p = 1, and nothing is called detectable."""
    found = analyse(responses(0.4 * signs("m") / 2 + np.zeros((16, 3, 4))))
    assert found is not None
    assert (found.effect("m").p_value, found.effect("m").p_adjusted, found.effect("m").confirmed) == (0.0, 0.0, True)
    assert {found.effect(name).p_value for name in TERMS if name != "m"} == {1.0}
    assert {effect.detectable for effect in found.effects} == {None}


def named(cell: str, values: dict[tuple[int, str], float]) -> list[Response[str]]:
    """Responses of one named cell by seed and task."""
    return [Response(cell=cell, seed=seed, task=task, value=value) for (seed, task), value in values.items()]


def test_a_difference_is_over_all_pairs_that_the_two_cells_share() -> None:
    """A third cell that lacks a seed takes nothing from the comparison of two others."""
    first = named("msct+uniform", {(0, "a"): 0.2, (0, "b"): 0.4, (1, "a"): 0.6, (1, "b"): 1.0})
    second = named("msct", {(0, "a"): 0.1, (0, "b"): 0.1, (1, "a"): 0.1, (1, "b"): 0.1})
    third = named("m", {(0, "a"): 0.0, (0, "b"): 0.0})
    pairs = [("msct+uniform", "msct")]
    found = compare([*first, *second, *third], pairs)[0]
    assert found is not None
    assert found.interval.estimate == pytest.approx(0.45)
    assert (found.num_seeds, found.num_pairs, found.over) == (2, 4, "seeds and tasks")
    assert (found,) == compare([*first, *second], pairs)


def test_a_difference_needs_a_common_seed_and_task() -> None:
    """Cells that met no common task, or one that never ran, have no difference."""
    first, second = named("c+binary", {(0, "a"): 1.0, (1, "a"): 1.0}), named("c", {(0, "b"): 0.0, (1, "b"): 0.0})
    assert compare([*first, *second], [("c+binary", "c"), ("c+binary", "none")]) == (None, None)
    assert compare([], [("c+binary", "c")]) == (None,)
