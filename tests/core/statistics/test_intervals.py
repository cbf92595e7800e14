"""Estimates and intervals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.statistics.intervals import (
    bootstrap_interval,
    clustered_rate_interval,
    coefficient_of_variation,
    fast_p,
    kendall_tau,
    pass_at_k,
    share_within,
    trimmed_mean,
    wilson_interval,
)

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


def test_variation_is_relative_to_the_mean() -> None:
    """Scaling changes nothing, and too little data gives null."""
    assert coefficient_of_variation([9.0, 11.0]) == pytest.approx(2**0.5 / 10)
    assert coefficient_of_variation([90.0, 110.0]) == pytest.approx(2**0.5 / 10)
    assert coefficient_of_variation([1.0]) is None
    assert coefficient_of_variation([0.0, 0.0]) is None


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


rankings = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=12)


@given(rankings)
def test_tau_is_symmetric_and_turns_with_its_rankings(pairs: list[tuple[int, int]]) -> None:
    """Which comes first makes no difference, reversing one ranking negates tau, and it stays in [-1, 1]."""
    first, second = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    tau = kendall_tau(first, second)
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert tau is kendall_tau(second, first) is None
        return
    assert tau == pytest.approx(kendall_tau(second, first), abs=1e-12)
    assert -1.0 <= tau <= 1.0
    assert kendall_tau(first, [-value for value in second]) == pytest.approx(-tau, abs=1e-12)
    assert kendall_tau(first, first) == pytest.approx(1.0, abs=1e-12)


def test_tau_counts_the_pairs_that_changed_places() -> None:
    """One exchange of neighbours among four is one pair of six: 4 / 6; values matter by their order alone."""
    assert kendall_tau([1.0, 2.0, 3.0, 4.0], [10.0, 30.0, 20.0, 1e9]) == pytest.approx(4 / 6)
    assert kendall_tau([], []) is None
    with pytest.raises(ValueError, match="values"):
        kendall_tau([1.0], [])


@given(st.lists(st.floats(0.5, 2.0), max_size=20), st.floats(0.0, 0.5), st.floats(0.0, 0.5))
def test_a_wider_tolerance_holds_no_less(sample: list[float], narrow: float, more: float) -> None:
    """The share within a tolerance grows with it, and is null for no values."""
    found, wider = share_within(sample, 1.0, narrow), share_within(sample, 1.0, narrow + more)
    if not sample:
        assert found is wider is None
    else:
        assert found is not None
        assert wider is not None
        assert 0.0 <= found <= wider <= 1.0


def test_the_share_within_counts_both_sides() -> None:
    """A hundredth above and below is within 1%, a fiftieth is not."""
    assert share_within([0.991, 1.009, 1.02, 0.98], 1.0, 0.01) == 0.5
