"""Arranged values: one sign and ties in every block, zeros in whole ones, parts that are much larger."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from tritonrl.stages.arrangements import ARRANGEMENTS, Arrangement, arrange

VALUES = arrays.arrays(
    np.float64,
    arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9),
    elements=st.floats(-1e6, 1e6, width=32),
)
KINDS = st.lists(st.sampled_from(ARRANGEMENTS), max_size=4, unique=True).map(tuple)


@given(VALUES, st.sampled_from([(), (0,), (-1,), (0, 1)]), KINDS, st.booleans())
def test_arranged_values_are_finite_and_follow_from_the_values(
    values: NDArray[np.float64], axes: tuple[int, ...], kinds: tuple[Arrangement, ...], has_ties: bool
) -> None:
    """Shape and dtype stay, what was drawn is not written to, and the same values become the same again."""
    before = values.copy()
    found = arrange(values, axes, kinds, has_ties)
    assert (found.shape, found.dtype) == (values.shape, values.dtype)
    assert np.isfinite(found).all()
    assert np.array_equal(values, before)
    assert np.array_equal(found, arrange(values, axes, kinds, has_ties))
    assert kinds or np.array_equal(found, values)


@pytest.mark.parametrize("axes", [(1,), (0,)])
def test_each_row_is_arranged_in_turn(axes: tuple[int, ...]) -> None:
    """Ties meet in all blocks of rows of one sign; of the others a quarter is zeros, and one end is the largest."""
    drawn = np.random.default_rng(0).standard_normal((8, 4096))
    found = arrange(drawn if axes == (1,) else drawn.T, axes, ARRANGEMENTS, has_ties=True)
    for row, kind in zip(found if axes == (1,) else found.T, 2 * ARRANGEMENTS, strict=True):
        if kind in ("negative", "positive"):
            assert (np.sign(row) == (1.0 if kind == "positive" else -1.0)).all()
            assert all({*block} == {*row} for block in row.reshape(-1, 128))
            assert np.array_equal(row, row.astype(np.float16))
        else:
            assert ((row == 0.0).reshape(16, -1).all(axis=1)).sum() >= 3
            ends = np.abs(row[:512]).max(), np.abs(row[-512:]).max()
            assert (ends[1] > 20.0 * ends[0]) if kind == "rising" else (ends[0] > 20.0 and ends[1] == 0.0)


def test_values_without_fair_ties_stay_apart() -> None:
    """Each row then has as many values as were drawn."""
    drawn = np.random.default_rng(1).standard_normal((4, 1000))
    found = arrange(drawn, (1,), ARRANGEMENTS, has_ties=False)
    assert [np.unique(row).size for row in found] == [1000] * 4
