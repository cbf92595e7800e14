"""`tensor[...]` by numbers, slices, `None` and `...` as the views that it stands for.

A build of PyTorch without CUDA refuses Python's indexing of `cuda` tensors before any dispatch, though the views
themselves work. On every build the same operators are recorded.
"""

from __future__ import annotations

from typing import Any

import torch


def index(tensor: torch.Tensor, key: Any) -> torch.Tensor:
    """What `tensor[key]` is: a view, or a gathered copy where the key holds tensors."""
    parts = list(key) if isinstance(key, tuple) else [key]
    if any(isinstance(part, (torch.Tensor, list)) for part in parts):
        return _gather(tensor, parts)
    num_taken = sum(part is not None and part is not Ellipsis for part in parts)
    if num_taken > tensor.dim():
        raise IndexError(f"too many indices for tensor of dimension {tensor.dim()}")
    dimension = 0
    for part in parts:
        if part is None:
            tensor = tensor.unsqueeze(dimension)
            dimension += 1
        elif part is Ellipsis:
            dimension = tensor.dim() - _num_after(parts)
        elif isinstance(part, slice):
            step = 1 if part.step is None else part.step
            tensor = torch.ops.aten.slice.Tensor(tensor, dimension, part.start, part.stop, step)
            dimension += 1
        elif isinstance(part, bool):
            raise TypeError("an index of bool cannot be recorded")
        else:
            tensor = tensor.select(dimension, part)
    return tensor


def _num_after(parts: list[Any]) -> int:
    after = parts[next(at for at, part in enumerate(parts) if part is Ellipsis) + 1 :]
    return sum(part is not None for part in after)


def _gather(tensor: torch.Tensor, parts: list[Any]) -> torch.Tensor:
    """An operator that moves values, which a plan names as arithmetic."""
    indices = [torch.tensor(part, device=tensor.device) if isinstance(part, list) else part for part in parts]
    if not all(isinstance(part, torch.Tensor) for part in indices):
        raise TypeError("indices that mix tensors with slices or numbers cannot be recorded")
    gathered: torch.Tensor = torch.ops.aten.index.Tensor(tensor, indices)
    return gathered
