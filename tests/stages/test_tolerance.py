"""Tolerances: rounding passes, wrong formulas and cheap imposters do not, whatever the scale."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonrl.core.candidate import RunReport, Variant
from tritonrl.stages import tolerance
from tritonrl.stages.judge_run import judge_run
from tritonrl.stages.tolerance import TOLERANCES, accepts, compare, find_needed_share

SCALES = st.floats(-20, 20).map(lambda power: 10.0**power)
SEEDS = st.integers(0, 2**32 - 1)
DTYPES = st.sampled_from(["float32", "float16", "bfloat16"])
BITS = {"float32": 10, "float16": 10, "bfloat16": 7}


def draw(seed: int, scale: float, size: int = 200) -> np.ndarray:
    """Normal values of a scale."""
    return np.random.default_rng(seed).standard_normal(size) * scale


@given(SEEDS, SCALES, DTYPES)
@settings(max_examples=100)
def test_rounding_is_accepted_at_every_scale(seed: int, scale: float, dtype: str) -> None:
    """Values rounded as the dtype's matrix units round them are right, be they 1e-20 or 1e20."""
    scale = scale if dtype != "float16" else 1.0
    expected = draw(seed, scale)
    rng = np.random.default_rng(seed + 1)
    actual = expected * (1 + rng.uniform(-1, 1, expected.shape) * 2.0 ** -(BITS[dtype] + 1))
    assert accepts(compare(actual, expected, dtype))


@given(SEEDS, SCALES, DTYPES)
@settings(max_examples=100)
def test_zeros_ones_and_noise_are_refused_at_every_scale(seed: int, scale: float, dtype: str) -> None:
    """Zeros, ones, the negative and other random values never pass, however small the expected values are."""
    expected = draw(seed, scale if dtype != "float16" else 1.0)
    for imposter in (np.zeros_like(expected), np.ones_like(expected), -expected, draw(seed + 1, scale)):
        assert not accepts(compare(imposter, expected, dtype))


def test_zeros_are_refused_for_a_wide_softmax() -> None:
    """A softmax over 262,144 columns has no element above 1e-4, and zeros still fail."""
    logits = np.random.default_rng(0).standard_normal(262_144)
    expected = np.exp(logits) / np.exp(logits).sum()
    assert expected.max() < 1e-3
    assert not accepts(compare(np.zeros_like(expected), expected, "float32"))
    assert accepts(compare(expected.astype(np.float32), expected, "float32"))


@given(SEEDS, st.integers(0, 199), DTYPES)
@settings(max_examples=50)
def test_one_wrong_element_is_refused(seed: int, position: int, dtype: str) -> None:
    """A single element off by the tensor's scale fails, though the norm of the error is small."""
    expected = draw(seed, 1.0)
    actual = expected.copy()
    actual[position] += 1.0
    assert not accepts(compare(actual, expected, dtype))


@given(SEEDS, st.sampled_from([np.nan, np.inf, -np.inf]))
@settings(max_examples=30)
def test_a_nonfinite_element_is_counted(seed: int, value: float) -> None:
    """NaN or infinity where the oracle is finite is one nonfinite element, and refused."""
    expected = draw(seed, 1.0)
    actual = expected.copy()
    actual[3] = value
    comparison = compare(actual, expected, "float32")
    assert comparison.num_nonfinite == 1
    assert not accepts(comparison)


def test_elements_that_judge_alone_are_measured_against_their_own_scales() -> None:
    """Where noise moves a sine by more than its value, any is right; beside it each other is held to its own."""
    expected, scales = np.array([0.3, -0.9, 1.0, 1e-6]), np.array([1e6, 1e6, 1.0, 1e-6])
    for found, is_right in (
        ([0.8, 0.4, 1.0, 1e-6], True),
        ([0.3, -0.9, 1.0, 2e-6], False),
        ([0.3, -0.9, 2, 1e-6], False),
    ):
        comparison = compare(np.array(found), expected, "float32", element_scales=scales, judges_elements_alone=True)
        assert accepts(comparison) is is_right


def test_the_oracles_own_infinities_are_accepted() -> None:
    """Where the oracle is infinite, NaN, or beyond the dtype's range, the same is right."""
    expected = np.array([np.inf, np.nan, 1e39, 1.0])
    assert accepts(compare(np.array([np.inf, np.nan, np.inf, 1.0]), expected, "float32"))
    assert not accepts(compare(np.array([-np.inf, np.nan, np.inf, 1.0]), expected, "float32"))


@pytest.mark.parametrize(("dtype", "largest"), [("float32", 3.4028235e38), ("float16", 65504.0)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_at_the_end_of_a_range_either_side_is_right(dtype: str, largest: float, sign: float) -> None:
    """A value within tolerance of the largest may be that or infinite; neither is right further from it."""
    for expected in (largest * 0.9999, largest * 1.0001):
        for found in (largest, np.inf):
            assert accepts(compare(np.array([sign * found, 1.0]), np.array([sign * expected, 1.0]), dtype))
        assert not accepts(compare(np.array([-sign * np.inf, 1.0]), np.array([sign * expected, 1.0]), dtype))
        assert not accepts(compare(np.array([np.nan, 1.0]), np.array([sign * expected, 1.0]), dtype))
        assert not accepts(compare(np.array([sign, 1.0]), np.array([sign * expected, 1.0]), dtype))
    assert not accepts(compare(np.array([sign * np.inf, 1.0]), np.array([sign * largest * 0.9, 1.0]), dtype))
    assert not accepts(compare(np.array([sign * largest, 1.0]), np.array([sign * largest * 1.1, 1.0]), dtype))


def test_infinities_are_right_beyond_what_is_safe_alone() -> None:
    """A product may overflow on its way to a result near the end of the range; smaller results must be right."""
    expected = np.array([1e35, 1e30, 1.0])
    assert accepts(compare(np.array([np.inf, 1e30, 1.0]), expected, "float32", largest_safe=1e34))
    assert accepts(compare(np.array([1e35, 1e30, 1.0]), expected, "float32", largest_safe=1e34))
    assert not accepts(compare(np.array([np.inf, 1e30, 1.0]), expected, "float32"))
    for wrong in ([-np.inf, 1e30, 1.0], [np.nan, 1e30, 1.0], [1e34, 1e30, 1.0], [np.inf, np.inf, 1.0]):
        assert not accepts(compare(np.array(wrong), expected, "float32", largest_safe=1e34))
    assert not accepts(compare(np.array([np.inf, 1.0]), np.array([6e4, 1.0]), "float16", largest_safe=1e34))


@pytest.mark.parametrize(
    ("dtype", "expected", "flushed"), [("float32", 1e-60, 0.0), ("float16", 1.03e-6, 1.01e-6), ("bfloat16", 1e-40, 0.0)]
)
def test_what_a_dtype_cannot_hold_is_forgiven(dtype: str, expected: float, flushed: float) -> None:
    """Underflow to zero and the coarse steps of float16 subnormals are right; larger errors are not."""
    values = np.full(8, expected)
    assert accepts(compare(np.full(8, flushed), values, dtype))
    assert not accepts(compare(np.full(8, flushed * 1e6 + 1.0), values * 1e6 + 2.0, dtype))


def test_zeros_are_no_underflow_where_the_dtype_has_room() -> None:
    """A float16 softmax over 262,144 columns, 4e-6 each, is not zero."""
    assert not accepts(compare(np.zeros(8), np.full(8, 4e-6), "float16"))


def test_expected_zeros_admit_residue_only() -> None:
    """Where all expected values are zero, 1e-9 passes and 1e-3 does not."""
    expected = np.zeros(10)
    assert accepts(compare(np.zeros(10), expected, "float32"))
    assert accepts(compare(np.full(10, 1e-9), expected, "float32"))
    assert not accepts(compare(np.full(10, 1e-3), expected, "float32"))


@given(SEEDS)
@settings(max_examples=30)
def test_integers_are_exact(seed: int) -> None:
    """An integer result is right only if every element is equal."""
    expected = np.random.default_rng(seed).integers(0, 1000, 50)
    assert accepts(compare(expected.copy(), expected, "int64"))
    wrong = expected.copy()
    wrong[7] += 1
    comparison = compare(wrong, expected, "int64")
    assert comparison.num_different == 1
    assert not accepts(comparison)


@pytest.mark.parametrize("shape", [(2, 4), (8,), (1, 8, 1), (0,)])
def test_another_shape_or_dtype_is_refused(shape: tuple[int, ...]) -> None:
    """Right values in another shape, or in another dtype than the reference's, are not right."""
    expected = np.ones((4, 2))
    assert not accepts(compare(np.ones(shape), expected, "float32"))
    assert not accepts(compare(expected, expected, "float32", "float16"))
    assert not accepts(compare(expected, expected.astype(np.int64), "float32", "int64"))


@pytest.mark.parametrize(
    ("dtype", "actual", "message"),
    [
        (
            "float32",
            np.full((4, 2), 2.0),
            "relative error 1 (at most 0.0001), worst element 0.5 (at most 0.0008), float32 of shape (4, 2)",
        ),
        ("float32", np.full((4, 2), np.nan), "8 of 8 elements, float32 of shape (4, 2)"),
        ("int64", np.zeros((4, 2)), "8 of 8 elements differ, int64 of shape (4, 2)"),
        ("float32", np.ones(8), "another shape than the reference's, (4, 2)"),
    ],
)
def test_wrong_values_are_told_with_tolerance_and_shape(dtype: str, actual: np.ndarray, message: str) -> None:
    """The message has what was allowed beside what was found, and whose result it is about."""
    found = evolve(compare(actual, np.ones((4, 2)), dtype), share_of_tolerance=0.1)
    failure = judge_run(RunReport(variant=Variant.ORIGINAL, seconds=0.1, comparisons=(found,)))
    assert failure is not None
    assert failure.message == message


@given(SEEDS, SCALES, st.floats(0.0, 0.5), st.floats(1.0, 2.0))
@settings(max_examples=50)
def test_a_larger_error_is_never_accepted_sooner(seed: int, scale: float, error: float, factor: float) -> None:
    """Acceptance is monotone in the size of the error."""
    expected = draw(seed, scale)
    noise = draw(seed + 1, scale)
    smaller = compare(expected + error * noise, expected, "float32")
    larger = compare(expected + factor * error * noise, expected, "float32")
    assert accepts(smaller) or not accepts(larger)


@given(SEEDS, st.floats(1e-4, 1e-1), DTYPES)
def test_the_share_that_is_needed_is_the_least_that_accepts(seed: int, error: float, dtype: str) -> None:
    """A little more accepts, a little less does not."""
    expected = np.random.default_rng(seed).standard_normal(64)
    found = compare(expected * (1.0 + error), expected, dtype)
    needed = find_needed_share(found)
    assert accepts(found, needed * 1.001)
    assert not accepts(found, needed * 0.999)


def test_wider_types_are_judged_more_strictly() -> None:
    """The limits grow from float32 over float16 to bfloat16."""
    limits = [TOLERANCES[name].relative_error for name in ("float32", "float16", "bfloat16")]
    assert limits == sorted(limits)
    assert len(set(limits)) == 3


@given(SEEDS, DTYPES, st.integers(1, 60), st.sampled_from([np.inf, -np.inf, np.nan, 1e39]), st.integers(0, 199))
@settings(max_examples=100)
def test_pieces_change_nothing(seed: int, dtype: str, piece: int, odd: float, position: int) -> None:
    """Cut into pieces of any size, a few of them with values that are not finite, arrays differ by the same figures."""
    expected = draw(seed, 1.0)
    actual = expected + draw(seed + 1, 1e-4)
    actual[position], expected[(position + seed) % 200] = odd, (odd, 1.0)[seed % 2]
    whole, before = compare(actual, expected, dtype), tolerance._PIECE
    try:
        tolerance._PIECE = piece
        cut = compare(actual, expected, dtype)
    finally:
        tolerance._PIECE = before
    assert (cut.num_nonfinite, cut.num_elements) == (whole.num_nonfinite, whole.num_elements)
    assert cut.relative_error == pytest.approx(whole.relative_error, rel=1e-9)
    assert cut.worst_excess == pytest.approx(whole.worst_excess, rel=1e-9)


@pytest.mark.parametrize("values", [3.0, [3.0, np.inf, np.nan, -3.0], [np.nan], [], [0.0, 0.0], [1e200, -1e200]])
def test_a_scale_is_that_of_the_finite_values(values: object) -> None:
    """It is their root mean square, of a single number too, and 0 where there is none."""
    given = np.asarray(values, np.float64)
    finite = given[np.isfinite(given)]
    unit = np.max(np.abs(finite), initial=0.0) or 1.0
    expected = unit * np.sqrt(np.mean((finite / unit) ** 2)) if finite.size else 0.0
    before = given.copy()
    assert tolerance.find_scale(given) == pytest.approx(expected)
    np.testing.assert_array_equal(given, before)
