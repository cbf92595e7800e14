"""Results that are compared where they are are judged as NumPy's arrays are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.harness.evaluation.suite_criterion import find_excess
from tritonrl.harness.reference import device_comparison
from tritonrl.harness.reference.device_comparison import compare_on_device, find_excess_on_device
from tritonrl.stages.tolerance import accepts, compare

VALUES = st.one_of(
    st.floats(-1e3, 1e3, width=32),
    st.floats(width=32, allow_nan=True, allow_infinity=True),
)


@given(
    pairs=st.lists(st.tuples(VALUES, VALUES, st.booleans()), min_size=1, max_size=30),
    dtype=st.sampled_from(["float32", "float16", "bfloat16"]),
    piece=st.sampled_from([3, 1 << 20]),
)
def test_figures_are_those_of_arrays(pairs: list[tuple[float, float, bool]], dtype: str, piece: int) -> None:
    """In pieces of any size; of results that one side lacks as finite ones it is enough that they are refused."""
    wanted = np.array([one for one, _, _ in pairs], dtype=np.float32)
    actual = np.array([one if same else other for one, other, same in pairs], dtype=np.float32)
    before, device_comparison._PIECE = device_comparison._PIECE, piece
    try:
        found = compare_on_device(torch.from_numpy(actual), torch.from_numpy(wanted), dtype, dtype)
        excess = find_excess_on_device(torch.from_numpy(actual), torch.from_numpy(wanted))
    finally:
        device_comparison._PIECE = before
    expected = compare(actual, wanted, dtype, dtype)
    assert found.num_nonfinite == expected.num_nonfinite
    assert accepts(found) == accepts(expected)
    assert found.relative_error == pytest.approx(expected.relative_error, rel=1e-6, abs=1e-12)
    assert found.worst_excess == pytest.approx(expected.worst_excess, rel=1e-6, abs=1e-12)
    assert excess == pytest.approx(find_excess(actual, wanted), rel=1e-6)


def test_forms_and_integers() -> None:
    """Another shape or dtype is seen, and integers are compared exactly."""
    whole = torch.arange(6)
    assert compare_on_device(whole, whole + (whole == 3), "int64", "int64").num_different == 1
    assert not accepts(compare_on_device(whole.reshape(2, 3), whole, "int64", "int64"))
    assert not accepts(compare_on_device(whole, whole, "int32", "int64"))
