"""Indexing of recorded tensors gives the views that PyTorch's own indexing gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.harness.sandbox.recording.tensor_calls import index

TENSOR = torch.arange(3 * 4 * 5).view(3, 4, 5)
BOUND = st.none() | st.integers(-6, 6)
SLICE = st.builds(slice, BOUND, BOUND, st.none() | st.integers(1, 3))
PART = st.integers(-3, 2) | SLICE | st.none()
KEYS = st.one_of(
    PART,
    st.just(...),
    st.lists(PART, max_size=3).map(tuple),
    st.tuples(st.just(...), PART),
    st.tuples(PART, st.just(...), PART),
)


@given(KEYS)
def test_index_is_the_view_that_indexing_gives(key: Any) -> None:
    """The same elements at the same place in memory, for numbers, slices, None and an ellipsis."""
    wanted, found = TENSOR[key], index(TENSOR, key)
    assert found.shape == wanted.shape
    assert found.stride() == wanted.stride() or found.numel() == 0
    assert torch.equal(found, wanted)
    assert found.numel() == 0 or found.data_ptr() == wanted.data_ptr()


def test_tensors_as_indices_gather() -> None:
    """They move values, by the operator that PyTorch uses."""
    rows, columns = torch.tensor([2, 0]), torch.tensor([1, 3])
    assert torch.equal(index(TENSOR, rows), TENSOR[rows])
    assert torch.equal(index(TENSOR, (rows, columns)), TENSOR[rows, columns])
    assert torch.equal(index(TENSOR, [0, 2]), TENSOR[[0, 2]])


@pytest.mark.parametrize("key", [(0, 0, 0, 0), 3, (slice(None), 4), slice(None, None, 0)])
def test_what_pytorch_refuses_is_refused(key: Any) -> None:
    """Too many indices, an index out of range, a step of zero."""
    with pytest.raises((IndexError, ValueError, RuntimeError)):
        TENSOR[key]
    with pytest.raises((IndexError, ValueError, RuntimeError)):
        index(TENSOR, key)
