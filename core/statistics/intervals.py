"""Estimates and their intervals, as the tables and the report give them.

A rate over independent trials gets Wilson's interval, which holds near 0 and 1 and for a handful of trials; everything
else a percentile bootstrap, clustered by task where samples of one task are alike (else ten samples of one task would
count as ten facts). Every random choice takes a seed. Null stands for "cannot be said", never NaN.

Effects have Student's t, and a family of them, the fifteen terms of one analysis on one metric, Holm's adjustment (S.
Holm, 1979) and not a false discovery rate: each effect is read by itself ("leave M on"), so that one false claim is one
too many. It needs no independence, which effects from the same cells do not have. Nor do the joint intervals, which are
Bonferroni's; effects of a full grid are nearly uncorrelated, so little is lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from attrs import frozen
from numpy.typing import NDArray


@frozen(kw_only=True)
class Interval:
    """An estimate with the ends of its interval."""

    estimate: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval's width: about the smallest difference from a fixed value that it can show."""
        return (self.high - self.low) / 2


def trimmed_mean(values: Sequence[float], trim: float) -> float:
    """The mean without floor(trim * n) values at each end; raises ValueError for none or for trim outside [0, 0.5)."""
    if not values or not 0.0 <= trim < 0.5:
        raise ValueError(f"needs values and a trim in [0, 0.5), got {len(values)} values and {trim!r}")
    # the nudge keeps 0.1 * 30 at 3
    cut = math.floor(trim * len(values) + 1e-9)
    kept = sorted(values)[cut : len(values) - cut]
    return math.fsum(kept) / len(kept)


def wilson_interval(num_successes: int, num_trials: int, confidence: float = 0.95) -> Interval | None:
    """Wilson's score interval of a rate; null without trials (E. B. Wilson, 1927)."""
    if not 0 <= num_successes <= num_trials:
        raise ValueError(f"{num_successes} successes in {num_trials} trials")
    if num_trials == 0:
        return None
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate = num_successes / num_trials
    scale = 1 + z * z / num_trials
    centre = (rate + z * z / (2 * num_trials)) / scale
    half = z * math.sqrt(rate * (1 - rate) / num_trials + z * z / (4 * num_trials**2)) / scale
    return Interval(estimate=rate, low=min(rate, max(0.0, centre - half)), high=max(rate, min(1.0, centre + half)))


def bootstrap_interval(
    values: Sequence[float],
    seed: int,
    clusters: Sequence[str] | None = None,
    confidence: float = 0.95,
    num_resamples: int = 2000,
) -> Interval | None:
    """The percentile bootstrap interval of the mean; null without values.

    Whole clusters (tasks) are resampled where they are given. Values are sorted first: order makes no difference.
    """
    if not values:
        return None
    if clusters is None:
        sums = np.sort(np.asarray(values, dtype=np.float64))
        counts = np.ones_like(sums)
    else:
        if len(clusters) != len(values):
            raise ValueError(f"{len(values)} values, but {len(clusters)} clusters")
        groups: dict[str, list[float]] = {}
        for name, value in zip(clusters, values, strict=True):
            groups.setdefault(name, []).append(value)
        pairs = sorted((math.fsum(group), float(len(group))) for group in groups.values())
        sums, counts = np.array(pairs).T
    weights = resampling_weights(len(sums), num_resamples, seed)
    low, high = percentile_ends((weights @ sums) / (weights @ counts), confidence)
    estimate = math.fsum(values) / len(values)
    return Interval(estimate=estimate, low=min(low, estimate), high=max(high, estimate))


def clustered_rate_interval(
    shares: Sequence[float], clusters: Sequence[str], seed: int, confidence: float = 0.95
) -> Interval | None:
    """The bootstrap interval of a rate whose samples are alike within a cluster (a task); null without samples.

    Where all clusters agree (nothing passed, or everything) resampling them shows no spread, and a rate of 0 would look
    certain: then the interval is Wilson's with the clusters for trials.
    """
    interval = bootstrap_interval(shares, seed, clusters, confidence)
    # resamples that agree may still differ by rounding
    if interval is None or interval.high - interval.low > 1e-9:
        return interval
    num_clusters, rate = len(set(clusters)), interval.estimate
    around = wilson_interval(round(rate * num_clusters), num_clusters, confidence)
    return around and Interval(estimate=rate, low=min(around.low, rate), high=max(around.high, rate))


def resampling_weights(num_units: int, num_resamples: int, seed: int) -> NDArray[np.float64]:
    """How often each unit occurs in each bootstrap resample: (num_resamples, num_units), rows sum to num_units."""
    generator = np.random.default_rng(seed)
    shares = np.full(num_units, 1.0 / num_units)
    return generator.multinomial(num_units, shares, size=num_resamples).astype(np.float64)


def percentile_ends(draws: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    """The central interval of bootstrap draws."""
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float | None:
    """Unbiased estimate of the chance that one of k samples is correct; null for k over n (Chen et al., 2021)."""
    if not 0 <= num_correct <= num_samples or k < 1:
        raise ValueError(f"{num_correct} correct of {num_samples} samples, k = {k}")
    if k > num_samples:
        return None
    return 1.0 - math.comb(num_samples - num_correct, k) / math.comb(num_samples, k)


def fast_p(correct: Sequence[bool], speedups: Sequence[float | None], threshold: float) -> float | None:
    """Share of candidates that are correct and more than `threshold` times as fast as the reference (KernelBench).

    A null speedup is not measured; where no correct candidate was measured the share is null, and so it is for none.
    """
    if len(correct) != len(speedups):
        raise ValueError(f"{len(correct)} candidates, but {len(speedups)} speedups")
    right = [speedup for is_right, speedup in zip(correct, speedups, strict=True) if is_right]
    if not correct or (right and all(speedup is None for speedup in right)):
        return None
    return sum(speedup is not None and speedup > threshold for speedup in right) / len(correct)


def p_value(statistic: float, degrees_of_freedom: float) -> float:
    """Returns the two-sided p-value of a t statistic; raises ValueError unless degrees of freedom are positive."""
    from scipy.special import betainc, betaincc

    _require_freedom(degrees_of_freedom)
    square = statistic * statistic
    # scipy's `stdtr` has nine digits near 0; the incomplete beta function has all, from the smaller side
    if square < degrees_of_freedom:
        return float(betaincc(0.5, degrees_of_freedom / 2.0, square / (degrees_of_freedom + square)))
    return float(betainc(degrees_of_freedom / 2.0, 0.5, degrees_of_freedom / (degrees_of_freedom + square)))


def quantile(probability: float, degrees_of_freedom: float) -> float:
    """Returns the value that t stays below with this probability; raises ValueError for one outside (0, 1)."""
    from scipy.special import stdtrit

    _require_freedom(degrees_of_freedom)
    if not 0.0 < probability < 1.0:
        raise ValueError(f"a probability must be within (0, 1), got {probability!r}")
    # the lower tail is told apart from 0 where its complement is not from 1
    tail = float(stdtrit(degrees_of_freedom, min(probability, 1.0 - probability)))
    return math.copysign(tail, probability - 0.5)


def detectable_multiple(degrees_of_freedom: float, power: float = 0.8, confidence: float = 0.95) -> float:
    """Returns how many standard errors an effect needs for its interval to exclude 0 with probability `power`.

    The sum of two quantiles (H. S. Bloom, "Minimum Detectable Effects", 1995).
    """
    return quantile((1.0 + confidence) / 2.0, degrees_of_freedom) + quantile(power, degrees_of_freedom)


def adjust(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjust p-values by Holm's method, in the order given: none below its own p, none over 1, ordered as they are."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p_values[index]))
        adjusted[index] = highest
    return tuple(adjusted)


def joint_confidence(confidence: float, num_intervals: int) -> float:
    """Returns the confidence that each of several intervals needs so that all hold together with `confidence`."""
    return 1.0 - (1.0 - confidence) / max(1, num_intervals)


def _require_freedom(degrees_of_freedom: float) -> None:
    if not degrees_of_freedom > 0.0:
        raise ValueError(f"degrees of freedom must be positive, got {degrees_of_freedom!r}")
