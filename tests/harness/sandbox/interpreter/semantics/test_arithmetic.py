"""Integers, shifts, remainders and products of bits, against Python's own exact numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.harness.sandbox.interpreter.semantics.arithmetic import (
    float_remainder,
    high_product,
    quotient,
    remainder,
    shifted_left,
    shifted_right,
)

LANES = 10


def of_bits(bits: int, signed: bool) -> st.SearchStrategy[int]:
    """Numbers of a width, the ends often among them."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return st.one_of(st.integers(low, high), st.integers(max(low, -3), 3), st.sampled_from([low, low + 1, high]))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[np.dtype[np.generic], int, int]:
    """A type and two of its numbers."""
    signed, bits = draw(st.booleans()), draw(st.sampled_from([8, 16, 32, 64]))
    numbers = of_bits(bits, signed)
    return np.dtype(f"{'int' if signed else 'uint'}{bits}"), draw(numbers), draw(numbers)


@given(pairs())
def test_division_is_towards_zero_and_undefined_where_there_is_no_result(
    pair: tuple[np.dtype[np.generic], int, int],
) -> None:
    """A number by zero, and the lowest by -1, give a mixture; all else what C gives."""
    dtype, left, right = pair
    dividend, divisor = np.full(LANES, left, dtype), np.full(LANES, right, dtype)
    whole, rest = quotient(dividend, divisor), remainder(dividend, divisor)
    assert whole.dtype == rest.dtype == dtype
    if right == 0 or (right == -1 and left == np.iinfo(dtype).min):
        assert len(set(whole.tolist())) > 2
        assert len(set(rest.tolist())) > 2
    else:
        wanted = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        assert set(whole.tolist()) == {wanted}
        assert set(rest.tolist()) == {left - wanted * right}


@given(pairs())
def test_shifts_are_undefined_from_the_width_on(pair: tuple[np.dtype[np.generic], int, int]) -> None:
    """Below it they are Python's, cut to the width."""
    dtype, value, distance = pair
    bits, width = np.full(LANES, value, dtype), 8 * dtype.itemsize
    left, right = (shift(bits, np.full(LANES, distance, dtype)) for shift in (shifted_left, shifted_right))
    assert left.dtype == right.dtype == dtype
    if 0 <= distance < width:
        assert left.astype(f"u{dtype.itemsize}").tolist() == [(value << distance) % 2**width] * LANES
        assert right.tolist() == [value >> distance] * LANES
    else:
        assert len(set(left.tolist())) > 2
        assert len(set(right.tolist())) > 2


@given(pairs())
def test_high_product_has_no_sign(pair: tuple[np.dtype[np.generic], int, int]) -> None:
    """The upper half of what the bits of both stand for, with the bits of the result in the numbers' type."""
    dtype, left, right = pair
    width = 8 * dtype.itemsize
    found = high_product(np.full(3, left, dtype), np.full(3, right, dtype))
    assert found.dtype == dtype
    assert found.astype(f"u{dtype.itemsize}").tolist() == [(left % 2**width) * (right % 2**width) >> width] * 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(data=st.data())
def test_remainder_of_floats_is_rounded_once_after_the_division(dtype: type[np.floating], data: st.DataObject) -> None:
    """The division is rounded, cut to a whole number, and multiplied back exactly."""
    numbers = st.floats(2.0**-20, 2.0**20, width=np.dtype(dtype).itemsize * 8)  # type: ignore[arg-type]
    left, right = dtype(data.draw(numbers)), dtype(data.draw(numbers) * data.draw(st.sampled_from([1, -1])))
    whole = np.trunc(left / right)
    wanted = float(Fraction(float(left)) - Fraction(float(whole)) * Fraction(float(right)))
    assert float_remainder(np.array([left]), np.array([right]))[0] == dtype(wanted)


def test_remainder_of_floats_at_the_ends() -> None:
    """By infinity it is the number itself; by zero there is none; a rounded division leaves less than nothing."""
    left = np.array([2.5, np.inf, 2.5, 0.7], np.float32)
    right = np.array([np.inf, np.inf, 0.0, 0.1], np.float32)
    found = float_remainder(left, right)
    assert found[:2].tolist() == [2.5, float("inf")]
    assert np.isnan(found[2])
    assert -1e-7 < found[3] < 0


def test_truth_values_are_numbers_of_one_bit() -> None:
    """They can be divided by true, and shifted by none."""
    left, right = np.array([False, True, False, True]), np.array([True, True, False, False])
    assert quotient(left, right)[:2].tolist() == [False, True]
    assert remainder(left, right)[:2].tolist() == [False, False]
    assert shifted_left(left, right)[2:].tolist() == shifted_right(left, right)[2:].tolist() == [False, True]
    assert quotient(left, right).dtype == remainder(left, right).dtype == np.bool_
