"""Estimates and intervals; tests of effects and their adjustment."""

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.statistics.intervals import (
    adjust,
    bootstrap_interval,
    clustered_rate_interval,
    detectable_multiple,
    fast_p,
    joint_confidence,
    p_value,
    pass_at_k,
    quantile,
    trimmed_mean,
    wilson_interval,
)

freedoms = st.floats(0.5, 1e5)
TABLE = {
    (0.95, 1): 6.314,
    (0.975, 1): 12.706,
    (0.975, 2): 4.303,
    (0.995, 2): 9.925,
    (0.975, 3): 3.182,
    (0.975, 5): 2.571,
    (0.95, 10): 1.812,
    (0.975, 10): 2.228,
    (0.995, 20): 2.845,
    (0.975, 30): 2.042,
    (0.975, 120): 1.980,
    (0.8, 4): 0.941,
}
values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


@given(values, st.floats(0.0, 0.49))
def test_a_trimmed_mean_lies_among_its_values_in_any_order(sample: list[float], trim: float) -> None:
    """Order makes no difference, and the mean stays within the range."""
    mean = trimmed_mean(sample, trim)
    assert min(sample) - 1e-6 <= mean <= max(sample) + 1e-6
    assert trimmed_mean(sample[::-1], trim) == mean


def test_a_trimmed_mean_drops_the_tails() -> None:
    """Ten percent of thirty values is three at each end."""
    assert trimmed_mean([1e9] * 3 + [5.0] * 24 + [-1e9] * 3, 0.1) == 5.0
    with pytest.raises(ValueError, match="trim"):
        trimmed_mean([1.0], 0.5)


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilsons_interval_contains_the_rate(counts: tuple[int, int]) -> None:
    """The interval holds the rate within [0, 1] and mirrors when successes and failures swap."""
    interval, mirror = wilson_interval(*counts), wilson_interval(counts[1] - counts[0], counts[1])
    assert interval is not None
    assert mirror is not None
    assert 0.0 <= interval.low <= interval.estimate <= interval.high <= 1.0
    assert interval.low == pytest.approx(1 - mirror.high, abs=1e-9)
    assert interval.half_width > 0.0


def test_wilsons_interval_has_its_published_value() -> None:
    """8 of 10 gives (0.490, 0.943)."""
    interval = wilson_interval(8, 10)
    assert interval is not None
    assert (interval.low, interval.high) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    assert wilson_interval(0, 0) is None


@given(values, st.integers(0, 99))
def test_a_bootstrap_holds_its_estimate_in_any_order(sample: list[float], seed: int) -> None:
    """The interval contains the mean and depends on seed and values alone."""
    interval = bootstrap_interval(sample, seed, num_resamples=50)
    assert interval is not None
    assert interval.low <= interval.estimate <= interval.high
    assert bootstrap_interval(sample[::-1], seed, num_resamples=50) == interval


def test_clusters_widen_the_interval() -> None:
    """Ten copies of a task's result are one fact, not ten."""
    sample = [float(task % 2) for task in range(10) for _ in range(10)]
    names = [str(task) for task in range(10) for _ in range(10)]
    loose, clustered = bootstrap_interval(sample, 0), bootstrap_interval(sample, 0, names)
    assert loose is not None
    assert clustered is not None
    assert clustered.half_width > 2 * loose.half_width
    assert bootstrap_interval([], 0) is None


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abcd")), min_size=1, max_size=20), st.integers(0, 99))
def test_a_rate_over_clusters_is_never_certain(marks: list[tuple[bool, str]], seed: int) -> None:
    """The interval holds the rate within [0, 1] and has a width even where all samples agree."""
    interval = clustered_rate_interval([float(mark) for mark, _ in marks], [name for _, name in marks], seed)
    assert interval is not None
    assert 0.0 <= interval.low <= interval.estimate <= interval.high <= 1.0
    assert interval.half_width > 0.0


def test_agreeing_clusters_count_as_trials_once() -> None:
    """Forty failures at four tasks say what four failures say, and no samples say nothing."""
    four = wilson_interval(0, 4)
    assert clustered_rate_interval([0.0] * 40, list("abcd") * 10, 0) == four
    assert clustered_rate_interval([], [], 0) is None


def test_a_normal_sample_gets_the_textbook_width() -> None:
    """For many values the bootstrap's half width is 1.96 standard errors."""
    interval = bootstrap_interval([float(i % 2) for i in range(400)], 1, num_resamples=4000)
    assert interval is not None
    assert interval.half_width == pytest.approx(1.96 * 0.5 / 20, rel=0.1)


@given(st.integers(1, 30).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_pass_at_k_rises_with_k(counts: tuple[int, int]) -> None:
    """pass@1 is the rate, more samples never hurt, and more than there are is null."""
    num_samples, num_correct = counts
    curve = [pass_at_k(num_samples, num_correct, k) for k in range(1, num_samples + 1)]
    known = [value for value in curve if value is not None]
    assert len(known) == num_samples
    assert known[0] == pytest.approx(num_correct / num_samples)
    assert known == sorted(known)
    assert pass_at_k(num_samples, num_correct, num_samples + 1) is None


def test_fast_p_counts_correct_and_fast() -> None:
    """A fast wrong candidate does not count, and without any measurement there is no share."""
    assert fast_p([True, True, False, True], [2.0, 0.5, 9.0, None], 1.0) == 0.25
    assert fast_p([True], [None], 1.0) is None
    assert fast_p([False], [None], 1.0) == 0.0
    assert fast_p([], [], 1.0) is None


@pytest.mark.parametrize(("place", "value"), TABLE.items())
def test_quantiles_are_those_of_the_printed_table(place: tuple[float, int], value: float) -> None:
    """Quantiles agree with the table to its three decimals, and the two-sided chance undoes them."""
    chance, freedom = place
    assert quantile(chance, freedom) == pytest.approx(value, abs=6e-4)
    assert p_value(quantile(chance, freedom), freedom) == pytest.approx(2 * (1 - chance), rel=1e-9)


@given(st.floats(0.001, 0.999), freedoms)
def test_quantile_and_chance_are_inverse_and_symmetric(chance: float, freedom: float) -> None:
    """The quantile of 1 - p is minus that of p, and |t| is beyond it with twice the tail's chance."""
    value = quantile(chance, freedom)
    assert value == pytest.approx(-quantile(1 - chance, freedom), rel=1e-7, abs=1e-9)
    assert p_value(value, freedom) == pytest.approx(2 * min(chance, 1 - chance), rel=1e-7)
    assert p_value(-value, freedom) == p_value(value, freedom)


@given(st.floats(-50, 50), st.floats(0.01, 10), freedoms)
def test_a_larger_statistic_is_less_likely(statistic: float, step: float, freedom: float) -> None:
    """The chance is within [0, 1], 1 for no difference, and falls with the statistic's size."""
    near, far = (p_value(abs(statistic) + more, freedom) for more in (0.0, step))
    assert 0.0 <= far <= near <= 1.0
    assert p_value(0.0, freedom) == 1.0


@given(st.floats(0.55, 0.999))
def test_quantiles_fall_towards_the_normal_ones(chance: float) -> None:
    """More degrees of freedom never widen an interval, and at a million it is the normal distribution's."""
    values = [quantile(chance, freedom) for freedom in (1, 2, 5.5, 30, 1000, 1_000_000)]
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(NormalDist().inv_cdf(chance), abs=1e-5)


@given(st.floats(-8.0, 8.0))
def test_one_degree_and_two_are_their_closed_forms(statistic: float) -> None:
    """With one degree of freedom t is Cauchy's distribution; with two it has a closed form as well."""
    assert p_value(statistic, 1) == pytest.approx(1 - 2 * np.arctan(abs(statistic)) / np.pi, abs=1e-9)
    assert p_value(statistic, 2) == pytest.approx(1 - abs(statistic) / np.sqrt(2 + statistic * statistic), abs=1e-9)


@pytest.mark.parametrize("freedom", [1, 2.5, 40, 2e6])
def test_the_far_tails_are_told_apart(freedom: float) -> None:
    """A chance too small to change 1 still has a quantile, below that of a larger chance."""
    assert quantile(1e-20, freedom) < quantile(1e-12, freedom) < quantile(1e-3, freedom) < 0.0
    assert p_value(quantile(1e-20, freedom), freedom) == pytest.approx(2e-20, rel=1e-6)


def test_impossible_arguments_are_refused() -> None:
    """No freedom and chances of 0 and 1 raise; an infinite statistic has no chance."""
    for freedom in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="degrees of freedom must be positive"):
            p_value(1.0, freedom)
        with pytest.raises(ValueError, match="degrees of freedom must be positive"):
            quantile(0.9, freedom)
    for chance in (0.0, 1.0, float("nan")):
        with pytest.raises(ValueError, match="a probability must be within"):
            quantile(chance, 3.0)
    assert p_value(float("inf"), 3.0) == 0.0


@pytest.mark.parametrize("num_values", [4, 10, 40])
def test_the_detectable_effect_is_found_four_times_in_five(num_values: int) -> None:
    """Of 20,000 simulated experiments with an effect of that size, 80% give an interval that excludes zero."""
    multiple = detectable_multiple(num_values - 1)
    values = np.random.default_rng(7).normal(multiple / np.sqrt(num_values), 1.0, size=(20_000, num_values))
    statistics = values.mean(axis=1) / (values.std(axis=1, ddof=1) / np.sqrt(num_values))
    power = (np.abs(statistics) > quantile(0.975, num_values - 1)).mean()
    assert 0.77 <= power <= 0.83


chances = st.lists(st.floats(0.0, 1.0), max_size=20)


def test_holms_worked_example() -> None:
    """Four p-values are multiplied by 4, 3, 2 and 1 in order of size, and none falls below the one before it."""
    assert adjust([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert adjust([0.5, 0.6]) == (1.0, 1.0)
    assert adjust([]) == ()


@given(chances)
def test_adjusted_values_are_between_the_raw_ones_and_bonferroni(p_values: list[float]) -> None:
    """None is below its own p, above 1, or above the p-value times how many there are."""
    for p, adjusted in zip(p_values, adjust(p_values), strict=True):
        assert p <= adjusted <= min(1.0, len(p_values) * p)


@given(chances)
def test_adjusting_keeps_the_order(p_values: list[float]) -> None:
    """A smaller p-value never has the larger adjusted one, and equal ones stay equal."""
    ordered = sorted(zip(p_values, adjust(p_values), strict=True))
    assert [adjusted for _, adjusted in ordered] == sorted(adjusted for _, adjusted in ordered)
    assert len(set(ordered)) == len(set(p_values))


@given(chances, st.randoms(use_true_random=False))
def test_each_value_follows_its_effect(p_values: list[float], shuffler: object) -> None:
    """The order that effects are listed in makes no difference to any of them."""
    places = list(range(len(p_values)))
    shuffler.shuffle(places)  # type: ignore[attr-defined]
    adjusted = adjust(p_values)
    assert adjust([p_values[place] for place in places]) == tuple(adjusted[place] for place in places)


@given(chances, st.integers(0, 19), st.floats(0.0, 1.0))
def test_a_smaller_p_value_never_hurts_another(p_values: list[float], place: int, factor: float) -> None:
    """Where one p-value shrinks no adjusted value grows."""
    if place < len(p_values):
        smaller = [p * factor if index == place else p for index, p in enumerate(p_values)]
        assert all(after <= before for after, before in zip(adjust(smaller), adjust(p_values), strict=True))


def test_false_claims_are_held_to_one_family_in_twenty() -> None:
    """Of 4,000 families of fifteen true nulls about 5% make any claim, and uncorrected more than half would."""
    draws = np.random.default_rng(3).uniform(size=(4_000, 15))
    claiming = np.mean([min(adjust(list(row))) <= 0.05 for row in draws])
    assert 0.04 <= claiming <= 0.06
    assert (draws.min(axis=1) <= 0.05).mean() > 0.5


@given(st.floats(0.5, 0.999), st.integers(1, 50))
def test_joint_confidence_divides_the_doubt(confidence: float, num_intervals: int) -> None:
    """The doubts of the intervals add up to the doubt that is allowed for all of them."""
    doubt = 1.0 - joint_confidence(confidence, num_intervals)
    assert num_intervals * doubt == pytest.approx(1.0 - confidence)
    assert joint_confidence(confidence, 0) == joint_confidence(confidence, 1) == pytest.approx(confidence)
