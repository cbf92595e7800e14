"""Student's t tests, and the correction for many of them: p-values, quantiles, Holm's adjustment, joint intervals.

A family is the effects of one analysis: fifteen terms on one metric. Holm's method (S. Holm, 1979) and not a false
discovery rate, because each effect is read by itself ("leave M on"), so that one false claim is one too many, and the
family is small. It needs no independence, which effects from the same cells do not have. The joint intervals are
Bonferroni's, which need none either; effects of a full grid are nearly uncorrelated, so little is lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


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
