"""Values lie in memory as the task's own inputs do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tritonrl.harness.reference.reference import count_stored
from tritonrl.harness.reference.values import place_like

LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t(),
    "left half": lambda x: x[:, :3],
    "right half": lambda x: x[:, 3:],
    "every second": lambda x: x[:, ::2],
    "one row": lambda x: x[2],
    "expanded": lambda x: x[0].expand(5, 6),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("name", LAYOUTS)
def test_values_are_placed_as_they_were_drawn(name: str, dtype: torch.dtype) -> None:
    """Shape, strides, place and what lies around stay; the values are the given ones."""
    base = torch.arange(24).reshape(4, 6).to(dtype)
    drawn = LAYOUTS[name](base)
    values = np.broadcast_to(100.0 + np.arange(drawn.shape[-1]), drawn.shape)
    placed = place_like(drawn, values.astype(np.int64) if dtype is torch.int64 else values, dtype)
    assert (placed.shape, placed.stride(), placed.dtype) == (drawn.shape, drawn.stride(), dtype)
    assert (placed.storage_offset(), count_stored(placed)) == (drawn.storage_offset(), count_stored(drawn))
    assert np.array_equal(placed.double().numpy(), torch.from_numpy(values.copy()).to(dtype).double().numpy())
    around = placed.as_strided((24,), (1,), 0)
    is_around = around < 100
    assert torch.equal(around[is_around], base.reshape(-1)[is_around])
