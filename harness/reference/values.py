"""Tensors' values as arrays, and a variant's values in the place and the order in memory that a task gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...stages.tolerance import LARGEST_FINITE
from ...stages.variants import VariantInputs, is_mask
from .reference import count_stored


def is_in_range(wanted: NDArray[np.generic], dtype: str) -> bool:
    """Whether all values are finite, and well below what the dtype can hold."""
    largest = float(np.max(np.abs(wanted), initial=0.0)) if wanted.dtype.kind == "f" else 0.0
    return largest < 0.9 * LARGEST_FINITE.get(dtype, np.inf)


def transform(value: Any, spec: VariantInputs, dtype: torch.dtype) -> Any:
    """A drawn value as the variant has it, exact in the dtype."""
    if not isinstance(value, torch.Tensor):
        return value
    if not value.is_floating_point():
        return place_like(value, spec.transform_integers(value.contiguous().numpy()), value.dtype)
    return place_like(value, spec.transform(value.double().contiguous().numpy()), dtype)


def is_integer(value: object) -> bool:
    """Whether a value is a tensor of signed integers."""
    return isinstance(value, torch.Tensor) and value.dtype in (torch.int8, torch.int16, torch.int32, torch.int64)


def is_mask_tensor(value: object) -> bool:
    """Whether a value is a tensor of flags, or of one integer that says nothing of others."""
    return isinstance(value, torch.Tensor) and not value.is_floating_point() and is_mask(value.numpy())


def place_like(drawn: torch.Tensor, values: NDArray[Any], dtype: torch.dtype) -> torch.Tensor:
    """Values of `drawn`'s shape, laid out in memory as it is; beside them lies what lies beside it.

    Where several elements are one in memory (`expand`), the last of their values is that of all.
    """
    size = count_stored(drawn)
    if drawn.is_contiguous() and size == drawn.numel():
        return torch.from_numpy(np.ascontiguousarray(values)).to(dtype)
    around = drawn.as_strided((size,), (1,), 0)
    storage = (around.double() if drawn.is_floating_point() else around.clone()).numpy()
    strides = tuple(step * storage.itemsize for step in drawn.stride())
    beginning = storage[drawn.storage_offset() :]
    np.lib.stride_tricks.as_strided(beginning, tuple(drawn.shape), strides, writeable=True)[...] = values
    placed = torch.from_numpy(storage).to(dtype)
    return placed.as_strided(drawn.shape, drawn.stride(), drawn.storage_offset())


def values_of(tensor: torch.Tensor) -> NDArray[np.generic]:
    """A tensor's values, floating ones in float64."""
    return (tensor.double() if tensor.is_floating_point() else tensor).detach().cpu().numpy()  # NumPy has no bfloat16
