"""Undefined memory: it reads as NaN, and what is written over it shows."""

from __future__ import annotations

import pytest
import torch
from tritonrl.harness.sandbox.undefined import GUARD_BYTES, guard_band, unwritten

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", FLOATS)
def test_guard_bands_of_floats_are_nan_and_arithmetic_changes_them(dtype: torch.dtype) -> None:
    """Every element is NaN, and its product with 1 has other bits."""
    for index in (0, 1, 62, 63, 1000):
        band = guard_band(dtype, index)
        assert band.numel() == GUARD_BYTES
        assert bool(band.view(dtype).isnan().all())
        product = band.view(dtype).float() * 1.0 if dtype.itemsize < 4 else band.view(dtype) * 1.0
        assert not torch.equal(product.to(dtype).view(torch.uint8), band)


@pytest.mark.parametrize("dtype", FLOATS)
def test_neighbouring_buffers_have_different_bands(dtype: torch.dtype) -> None:
    """Copying from outside one buffer to outside another changes the second."""
    bands = {bytes(guard_band(dtype, index).tolist()) for index in range(63)}
    assert len(bands) == 63


def test_integers_start_at_an_extreme() -> None:
    """Unwritten integers are their type's minimum, booleans true."""
    assert unwritten(torch.int16) == -(2**15)
    assert unwritten(torch.bool) is True
    assert guard_band(torch.int32, 3).view(torch.int32).unique().numel() == 1
