"""Floats of few digits: whole numbers alone are rounded, as float32 rounds them beyond 2^24."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.harness.sandbox.interpreter.semantics.short_floats import shorten

from .test_rounding import FLOATS


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
