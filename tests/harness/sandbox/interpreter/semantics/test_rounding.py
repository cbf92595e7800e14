"""One rounding, checked against exact fractions; whole numbers of few digits, as float32 rounds them beyond 2^24."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tritonrl.harness.sandbox.interpreter.semantics.rounding import (
    fuse,
    fuse_to_odd,
    narrow_to_odd,
    shorten,
    to_integers,
    towards_zero,
)

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
HALVES = st.floats(width=16, allow_nan=False, allow_infinity=False)


def nearest(exact: Fraction, dtype: Any) -> Any:
    """The number of a type that is nearest to an exact value, ties to even, by trying what is around."""
    start = dtype(min(max(float(exact), -float(np.finfo(dtype).max)), float(np.finfo(dtype).max)))
    around = [start, np.nextafter(start, dtype(np.inf)), np.nextafter(start, dtype(-np.inf))]
    finite = [one for one in around if np.isfinite(one)]
    size = np.dtype(dtype).itemsize

    def key(one: Any) -> tuple[Fraction, int]:
        return abs(Fraction(float(one)) - exact), int(one.view(f"u{size}")) & 1

    return min(finite, key=key)


@given(FLOATS, FLOATS, FLOATS)
@example(1.0000001192092896, 1.0000001192092896, 2.0**-60)
@example(3.0, 2.0**-149, -(2.0**-149))
def test_a_fused_product_is_rounded_once(left: float, right: float, addend: float) -> None:
    """Also where float64 itself rounds half way between two numbers of float32."""
    exact = Fraction(left) * Fraction(right) + Fraction(addend)
    if abs(exact) >= Fraction(float(np.finfo(np.float32).max)):
        return
    arrays = [np.array([value], np.float32) for value in (left, right, addend)]
    assert fuse(*arrays)[0] == nearest(exact, np.float32)


@given(HALVES, HALVES, HALVES)
@example(0.00018310546875, 0.000732421875, 2050.0)
def test_a_fused_product_of_halves_is_rounded_once(left: float, right: float, addend: float) -> None:
    """Halves too."""
    exact = Fraction(left) * Fraction(right) + Fraction(addend)
    if abs(exact) >= 65504:
        return
    arrays = [np.array([value], np.float16) for value in (left, right, addend)]
    assert fuse(*arrays)[0] == nearest(exact, np.float16)


def test_a_fused_product_of_doubles_is_rounded_once() -> None:
    """Where a product and a sum would lose all digits."""
    third = np.array([1 / 3, np.inf, 1e300])
    rest = fuse(third, third, -(third * third))
    assert rest[0] == float(Fraction(1 / 3) ** 2 - Fraction((1 / 3) * (1 / 3)))
    assert rest[0] != 0
    assert np.isnan(rest[1])
    assert rest[2] == -np.inf


def test_infinities_and_nan_stay_what_they_are() -> None:
    """Nothing is left over of them."""
    given_ones = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
    ones, zeros = np.ones(5, np.float32), np.zeros(5, np.float32)
    np.testing.assert_array_equal(fuse(given_ones, ones, zeros), given_ones + zeros)
    assert fuse_to_odd(given_ones, ones, zeros).dtype == np.float64


@given(st.floats(min_value=-1e30, max_value=1e30))
@example(1.0 + 2.0**-24 + 2.0**-50)
@example(2.0**-130 + 2.0**-180)
def test_rounding_to_odd_keeps_on_which_side_the_value_is(value: float) -> None:
    """What is not exact has an odd last bit, and lies beside the value."""
    found = narrow_to_odd(np.array([value]))[0]
    assert float(found) == value or int(found.view(np.uint32)) & 1
    assert abs(Fraction(float(found)) - Fraction(value)) <= Fraction(float(np.spacing(np.abs(found))))


@given(FLOATS)
@example(65519.0)
@example(65536.0)
@example(2.0**-25)
@example(-70000.0)
def test_towards_zero_is_the_largest_half_that_is_not_beyond(value: float) -> None:
    """By looking at the next one."""
    found = towards_zero(np.array([value], np.float32))[0]
    assert np.isfinite(found)
    assert abs(float(found)) <= abs(value)
    following = np.nextafter(np.abs(found), np.float16(np.inf))
    assert float(following) > abs(value) or following == np.inf


def test_towards_zero_leaves_infinity_and_nan() -> None:
    """They are no large numbers."""
    found = towards_zero(np.array([np.inf, -np.inf, np.nan], np.float32))
    assert found[0] == np.inf
    assert found[1] == -np.inf
    assert np.isnan(found[2])


@pytest.mark.parametrize(("kind", "nan"), [("i4", 0), ("u4", 0), ("i8", -(2**63)), ("u8", 2**63), ("i2", 0)])
def test_integers_are_the_nearest_that_there_are(kind: str, nan: int) -> None:
    """Beyond the ends the ends, which is what `cvt` does."""
    info = np.iinfo(np.dtype(kind))
    found = to_integers(np.array([1e30, -1e30, 2.9, math.nan]), np.dtype(kind))
    assert found.tolist() == [info.max, info.min, 2, nan]


@given(st.integers(-(2**40), 2**40), st.integers(1, 23))
def test_whole_numbers_are_rounded_as_float32_rounds_larger_ones(number: int, num_digits: int) -> None:
    """To the nearest number of so many digits, of two to the even one."""
    exact = np.float32(number)
    step = 2 ** max(0, int(abs(exact)).bit_length() - num_digits)
    assert shorten(np.array([exact]), num_digits)[0] == round(Fraction(int(exact), step)) * step


@given(FLOATS, st.integers(1, 24))
def test_what_is_behind_the_point_stays(value: float, num_digits: int) -> None:
    """Coordinates between two elements are what they were, and so is what has no digits."""
    for kept in (value, np.inf, np.nan):
        if not float(kept).is_integer():
            np.testing.assert_array_equal(shorten(np.array([kept], np.float32), num_digits), np.float32([kept]))
