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
from collections.abc import Iterator, Sequence

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from ..core.candidate import Comparison

# Ratios are stored in JSON, which has no infinity.
LARGEST_RATIO = 1e30
# An expected tensor of nothing but zeros has no scale: an error of 1e-6 is then counted as 1e-3.
ZERO_SCALE = 1e-3

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
WELL_WITHIN = 0.25
"""Of the limits, what a reference may take itself where a right kernel may round more coarsely.

So may products in float32: a reference's sums are taken in pairs. A kernel's, one block after the other, were four
times as coarse on an H100: 0.0016 for 0.0004, of a product of shifted matrices whose logarithmic softmax magnifies what
they round.
"""
WHERE_FINITE = 1e6
"""Of the limits, where only infinities and NaN count: large values through a product whose rounding is not known."""
SMALLEST = {"float64": 2.3e-308, "float32": 1.2e-38, "float16": 6.0e-8, "bfloat16": 1.2e-38}
LARGEST_FINITE = {"float64": 1.797e308, "float32": 3.4028235e38, "float16": 65504.0, "bfloat16": 3.3895314e38}
_PIECE = 1 << 16
"""Elements that are compared at once: in float64 they stay in a processor's cache."""


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
    element's own, too; those whose scale is infinite have none. With `judges_elements_alone` they count as right, and
    the others are measured against their own alone: a sine of 2^60 has a scale of a million beside values of 1.
    Integers may lie in `integer_range`.
    """
    found = Comparison(
        dtype=dtype,
        shape_matches=actual.shape == expected.shape,
        dtype_matches=dtype == (expected_dtype or dtype),
        num_elements=int(expected.size),
        shape=expected.shape,
    )
    if not found.shape_matches:
        return found
    if dtype not in TOLERANCES or (expected_dtype is not None and expected_dtype not in TOLERANCES):
        low, high = integer_range or (expected, expected)
        num_different = int(np.count_nonzero(~(np.less_equal(low, actual) & np.less_equal(actual, high))))
        return evolve(found, num_different=num_different)
    worst_element = 0.0
    if element_scales is not None:
        has_scale = np.isfinite(element_scales)
        if judges_elements_alone:
            actual, expected = np.where(has_scale, actual, 0.0), np.where(has_scale, expected, 0.0)
        worst_element = _find_worst_element(actual, expected, element_scales, SMALLEST[dtype])
    slack, limit = TOLERANCES[dtype].worst_excess, LARGEST_FINITE[dtype]
    pieces = [_Piece.of(*pair, limit, slack, largest_safe) for pair in _cut(actual, expected)]
    relative_error, worst_excess = 0.0, 0.0
    if element_scales is None or not judges_elements_alone:
        relative_error, worst_excess = _ratios(pieces, SMALLEST[dtype], least_scale)
    return evolve(
        found,
        num_nonfinite=sum(piece.num_nonfinite for piece in pieces),
        relative_error=relative_error,
        worst_excess=worst_excess,
        worst_element=bounded(worst_element),
    )


def find_scale(expected: NDArray[np.generic]) -> float:
    """The root mean square of the finite values; 0 for integers and where there is none."""
    finite = np.abs(np.ravel(expected).astype(np.float64))
    unit = float(np.max(finite, initial=0.0))
    if not math.isfinite(unit):
        finite = finite[np.isfinite(finite)]
        unit = float(np.max(finite, initial=0.0))
    if unit == 0.0:
        return 0.0
    finite /= unit
    return unit * math.sqrt(np.mean(np.square(finite, out=finite)))


def _find_worst_element(
    actual: NDArray[np.generic], expected: NDArray[np.generic], scales: NDArray[np.float64], smallest: float
) -> float:
    found, wanted = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        errors = np.where(np.isfinite(found) & np.isfinite(wanted), np.abs(found - wanted) - smallest, 0.0)
        return float(np.max(np.where(errors > 0.0, errors / scales, 0.0), initial=0.0))


def _cut(
    actual: NDArray[np.generic], expected: NDArray[np.generic]
) -> Iterator[tuple[NDArray[np.generic], NDArray[np.generic]]]:
    """Cut two arrays of one shape into flat pieces, so that what is made of them on the way stays small."""
    found, wanted = np.ascontiguousarray(actual).reshape(-1), np.ascontiguousarray(expected).reshape(-1)
    for start in range(0, found.size, _PIECE):
        yield found[start : start + _PIECE], wanted[start : start + _PIECE]


@frozen(kw_only=True, eq=False)
class _Piece:
    """A part of both arrays, with what they cannot hold made infinite."""

    actual: NDArray[np.generic]
    expected: NDArray[np.generic]
    limit: float
    slack: float
    largest_safe: float
    num_nonfinite: int = 0
    largest: float = 0.0
    """Of the expected values where both are finite."""

    @classmethod
    def of(
        cls,
        actual: NDArray[np.generic],
        expected: NDArray[np.generic],
        limit: float,
        slack: float,
        largest_safe: float,
    ) -> _Piece:
        """Return the piece with its figures."""
        piece = cls(actual=actual, expected=expected, limit=limit, slack=slack, largest_safe=largest_safe)
        found, wanted, both_finite = piece.widen()
        if both_finite is None:
            return evolve(piece, largest=float(np.max(np.abs(wanted), initial=0.0)))
        with np.errstate(all="ignore"):
            same_nonfinite = (np.isnan(wanted) & np.isnan(found)) | (np.isinf(wanted) & (wanted == found))
        return evolve(
            piece,
            num_nonfinite=int(np.count_nonzero(~(both_finite | same_nonfinite))),
            largest=float(np.max(np.abs(wanted[both_finite]), initial=0.0)),
        )

    def widen(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_] | None]:
        """Return both in float64, and where both are finite, None for everywhere; not kept, for memory's sake."""
        found, wanted, limit = self.actual.astype(np.float64), self.expected.astype(np.float64), self.limit
        least_at_end = min(1.0 - self.slack, self.largest_safe / limit)
        with np.errstate(all="ignore"):
            # nearly always: a sum is finite where all of it is, but for values near the end of float64
            if np.max(np.abs(wanted), initial=0.0) < least_at_end * limit and np.isfinite(np.sum(found)):
                return found, wanted, None
            infinite = np.copysign(np.inf, wanted)
            sizes = np.abs(wanted) / limit
            is_at_end = (sizes >= least_at_end) & (sizes <= 1.0 + self.slack)
            is_infinite = np.where(is_at_end, found == infinite, sizes > 1.0)
            wanted = np.where(is_infinite, infinite, wanted)
            return found, wanted, np.isfinite(wanted) & np.isfinite(found)

    def finite(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return both where both are finite."""
        found, wanted, both_finite = self.widen()
        return (found, wanted) if both_finite is None else (found[both_finite], wanted[both_finite])


def _ratios(pieces: Sequence[_Piece], smallest: float, least_scale: float) -> tuple[float, float]:
    # in units of the largest value, so that no square overflows or underflows
    unit = max((piece.largest for piece in pieces), default=0.0)
    unit, scale = max(unit, least_scale), 1.0
    count, squares, largest = 0, 0.0, 0.0
    for piece in pieces:
        _, wanted = piece.finite()
        count += wanted.size
        if unit > 0.0:
            wanted /= unit
            squares += float(np.sum(np.square(wanted, out=wanted)))
    if not count:
        return 0.0, 0.0
    if unit == 0.0:
        unit = ZERO_SCALE
    else:
        scale = max(math.sqrt(squares / count), least_scale / unit)
    worst = 0.0
    sums: list[tuple[float, float]] = []
    with np.errstate(all="ignore"):
        for piece in pieces:
            found, wanted = piece.finite()
            found /= unit
            wanted /= unit
            difference = np.abs(np.subtract(found, wanted, out=found), out=found)
            difference -= smallest / unit
            largest = float(np.max(difference, initial=0.0))
            if largest <= 0.0:
                continue
            np.maximum(difference, 0.0, out=difference)
            sizes = np.abs(wanted, out=wanted)
            sizes += scale
            worst = max(worst, float(np.max(np.divide(difference, sizes, out=sizes), initial=0.0)))
            difference /= largest
            sums.append((largest, float(np.sum(np.square(difference, out=difference)))))
    largest = max((own for own, _ in sums), default=0.0)
    root_mean_square = largest * math.sqrt(sum(part * (own / largest) ** 2 for own, part in sums) / count)
    return bounded(root_mean_square / scale), bounded(worst)


def bounded(ratio: float) -> float:
    """Return a ratio, or `LARGEST_RATIO` where it is more or no number."""
    return ratio if ratio < LARGEST_RATIO else LARGEST_RATIO


def find_needed_share(comparison: Comparison) -> float:
    """Return the share of the tolerance that would accept a comparison's errors; 0 for other dtypes than floats."""
    tolerance = TOLERANCES.get(comparison.dtype)
    if tolerance is None:
        return 0.0
    worst = max(comparison.worst_excess, comparison.worst_element)
    return max(comparison.relative_error / tolerance.relative_error, worst / tolerance.worst_excess)


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
