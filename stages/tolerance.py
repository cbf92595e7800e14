"""When a result counts as right: measured against an fp64 oracle, relative to the expected values' own scale.

An absolute tolerance accepts zeros for a softmax whose largest element is 4e-6, and a purely relative one rejects any
rounding near a zero crossing. So two figures are taken, both relative to the expected tensor's scale: the error's
2-norm over the expected 2-norm, which an incorrect formula cannot keep small, and the largest single error over
(|expected| + root mean square), which a few wrong elements in a million cannot hide from. float32's limits are narrower
where nothing multiplies matrices, and wider for TF32, as PyTorch itself may use it; zeros, ones and the input itself
fail by orders of magnitude wherever the task is a sound one. What a dtype cannot hold is forgiven: values beyond its
range count as infinite, and an error smaller than its smallest number (float16 keeps subnormals, GPUs flush those of
the wider ones) counts as none. What is expected so near the end of a range that an error within tolerance crosses it
may be infinite or not, and so may what a formula reaches by way of values beyond the range. Where inputs were
transformed, results may all be tiny remainders of what the task computes on ordinary ones (a softplus of large negative
values): then errors are measured against a hundredth of the ordinary results' scale. Integer results (argmax) are
compared exactly. And where one scale for a whole tensor would hide what happens to its small elements, each is measured
against a scale of its own.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from ..core.candidate import Comparison

# Ratios are stored in JSON, which has no infinity.
LARGEST_RATIO = 1e30
# An expected tensor of nothing but zeros has no scale: an error of 1e-6 is then counted as 1e-3.
_ZERO_SCALE = 1e-3

IntegerRange = tuple[NDArray[np.generic], NDArray[np.generic]]
"""The least and the largest value of each element of an integer result."""


@frozen(kw_only=True)
class Tolerance:
    """Upper limits of a comparison's two ratios."""

    relative_error: float
    worst_excess: float


TOLERANCES = {
    "float64": Tolerance(relative_error=1e-3, worst_excess=8e-3),
    "float32": Tolerance(relative_error=1e-3, worst_excess=8e-3),
    "float16": Tolerance(relative_error=4e-3, worst_excess=3e-2),
    "bfloat16": Tolerance(relative_error=3e-2, worst_excess=1.5e-1),
}
SHARE_WITHOUT_PRODUCTS = 0.1
"""Of float32's limits, where the task multiplies no matrices, nor a GPU in TF32; right kernels take 0.03 at most."""
SHARE_WITH_TF32 = 4.0
"""Of float32's limits, where the task multiplies matrices and the plan does in TF32.

A GPU's matrix units cut an operand off after ten bits, which makes every product too small by about a thousandth, and
what follows may double that. An H200 gave 0.0011 for a product of matrices with a chain.
"""
WHERE_FINITE = 1e6
"""Of the limits, where only infinities and NaN count: large values through a product whose rounding is not known."""
_SMALLEST = {"float64": 2.3e-308, "float32": 1.2e-38, "float16": 6.0e-8, "bfloat16": 1.2e-38}
LARGEST_FINITE = {"float64": 1.797e308, "float32": 3.4028235e38, "float16": 65504.0, "bfloat16": 3.3895314e38}
_PRODUCTS_OF_MANY = frozenset({"cumprod", "prod"})
_SHARE_OF_RANGE = 1e-4


def find_largest_safe(operators: Collection[str]) -> float:
    """Return the largest result that a right kernel in float32 reaches whatever the order in which it multiplies.

    Products of many values leave float32's range as soon as these are doubled. On the way to a result that is not
    beyond it a product may be, and where depends on the order. `operators` are the names of the reference's.
    """
    return math.inf if _PRODUCTS_OF_MANY.isdisjoint(operators) else _SHARE_OF_RANGE * LARGEST_FINITE["float32"]


def choose_share(
    dtype: str, multiplies_matrices: bool, cuts_to_tf32: bool, may_cut_unasked: bool, is_large: bool
) -> float:
    """Return the share of a dtype's tolerance that a run may use.

    `cuts_to_tf32`: the plan's code does. Products that the task does not ask for excuse the rounding of TF32 alone, and
    that where it is done (`may_cut_unasked`). `is_large`: the variant's inputs are.
    """
    if multiplies_matrices or may_cut_unasked:
        if is_large:  # exponentials of large values magnify the rounding of matrix units without bound
            return WHERE_FINITE
        return SHARE_WITH_TF32 if multiplies_matrices and dtype == "float32" and cuts_to_tf32 else 1.0
    return SHARE_WITHOUT_PRODUCTS if dtype == "float32" and not is_large else 1.0


def compare(
    actual: NDArray[np.generic],
    expected: NDArray[np.generic],
    dtype: str,
    expected_dtype: str | None = None,
    least_scale: float = 0.0,
    largest_safe: float = np.inf,
    element_scales: NDArray[np.float64] | None = None,
    judges_elements_alone: bool = False,
    integer_range: IntegerRange | None = None,
) -> Comparison:
    """How `actual` (of torch dtype `dtype`, as an array of any numpy dtype) differs from the oracle's values.

    Errors are measured against `least_scale` where the expected values' own scale is smaller. Expected values beyond
    `largest_safe` may be infinite. With `element_scales`, of the result's shape, errors are measured against each
    element's own, too; those whose scale is infinite have none, and count as right with `judges_elements_alone`.
    Integers may lie in `integer_range`.
    """
    dtype_matches = dtype == (expected_dtype or dtype)
    if actual.shape != expected.shape:
        return Comparison(
            dtype=dtype, shape_matches=False, dtype_matches=dtype_matches, num_elements=int(expected.size)
        )
    if dtype not in TOLERANCES or (expected_dtype is not None and expected_dtype not in TOLERANCES):
        low, high = integer_range or (expected, expected)
        num_different = int(np.count_nonzero(~(np.less_equal(low, actual) & np.less_equal(actual, high))))
        return Comparison(
            dtype=dtype,
            shape_matches=True,
            dtype_matches=dtype_matches,
            num_elements=int(expected.size),
            num_different=num_different,
        )
    wanted = expected.astype(np.float64)
    found = actual.astype(np.float64)
    limit = LARGEST_FINITE[dtype]
    with np.errstate(all="ignore"):
        infinite = np.copysign(np.inf, wanted)
        slack = TOLERANCES[dtype].worst_excess
        sizes = np.abs(wanted) / limit
        is_at_end = (sizes >= min(1.0 - slack, largest_safe / limit)) & (sizes <= 1.0 + slack)
        is_infinite = np.where(is_at_end, found == infinite, sizes > 1.0)
        wanted = np.where(is_infinite, infinite, wanted)
        if element_scales is not None and judges_elements_alone:
            found = np.where(np.isfinite(element_scales), found, wanted)
        both_finite = np.isfinite(wanted) & np.isfinite(found)
        same_nonfinite = (np.isnan(wanted) & np.isnan(found)) | (np.isinf(wanted) & (wanted == found))
        num_nonfinite = int(np.count_nonzero(~(both_finite | same_nonfinite)))
        relative_error, worst_excess = _ratios(found[both_finite], wanted[both_finite], _SMALLEST[dtype], least_scale)
        worst_element = 0.0
        if element_scales is not None:
            scales = element_scales[both_finite]
            errors = np.maximum(np.abs(found - wanted)[both_finite] - _SMALLEST[dtype], 0.0)
            worst_element = float(np.max(np.where(errors > 0.0, errors / scales, 0.0), initial=0.0))
    return Comparison(
        dtype=dtype,
        shape_matches=True,
        dtype_matches=dtype_matches,
        num_elements=int(expected.size),
        num_nonfinite=num_nonfinite,
        relative_error=relative_error,
        worst_excess=worst_excess,
        worst_element=_bounded(worst_element),
    )


def find_scale(expected: NDArray[np.generic]) -> float:
    """The root mean square of the finite values; 0 for integers and where there is none."""
    finite = expected[np.isfinite(expected)].astype(np.float64)
    unit = float(np.max(np.abs(finite))) if finite.size else 0.0
    return unit * float(np.sqrt(np.mean((finite / unit) ** 2))) if unit > 0.0 else 0.0


def _ratios(
    found: NDArray[np.float64], wanted: NDArray[np.float64], smallest: float, least_scale: float
) -> tuple[float, float]:
    if not wanted.size:
        return 0.0, 0.0
    # in units of the largest value, so that no square overflows or underflows
    unit = max(float(np.max(np.abs(wanted))), least_scale)
    if unit == 0.0:
        unit, scale = _ZERO_SCALE, 1.0
    else:
        scale = max(float(np.sqrt(np.mean((wanted / unit) ** 2))), least_scale / unit)
    difference = np.maximum(np.abs(found / unit - wanted / unit) - smallest / unit, 0.0)
    largest = float(np.max(difference))
    root_mean_square = largest * float(np.sqrt(np.mean((difference / largest) ** 2))) if largest > 0.0 else 0.0
    worst = float(np.max(difference / (np.abs(wanted) / unit + scale)))
    return _bounded(root_mean_square / scale), _bounded(worst)


def _bounded(ratio: float) -> float:
    return ratio if ratio < LARGEST_RATIO else LARGEST_RATIO


def accepts(comparison: Comparison, share: float = 1.0) -> bool:
    """Whether a comparison counts as right, within this share of the tolerance that it is granted."""
    share *= comparison.share_of_tolerance
    if not (comparison.shape_matches and comparison.dtype_matches):
        return False
    if comparison.num_nonfinite or comparison.num_different:
        return False
    tolerance = TOLERANCES.get(comparison.dtype)
    if tolerance is None:
        return True
    return (
        comparison.relative_error <= share * tolerance.relative_error
        and max(comparison.worst_excess, comparison.worst_element) <= share * tolerance.worst_excess
    )
