"""Calls on `cuda` tensors that a build of PyTorch without CUDA refuses before it dispatches any operator.

They are taken one level higher, in a function mode, and done by what such a build does dispatch: `contiguous`, `copy_`,
moves between devices, and indexing, read or assigned (`indexing`). Conversions to a Python number need values that a
recording does not have, and say so.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch.overrides import TorchFunctionMode

from ...core.outcome import Outcome
from .indexing import index
from .launches import Refusal

_READERS = {
    getattr(torch.Tensor, name)
    for name in ("__bool__", "__complex__", "__float__", "__index__", "__int__", "item", "numpy", "tolist")
}


class Copier(Protocol):
    """What these calls need of the pass that is recorded."""

    def copy(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Append a copy."""


class DeviceCalls(TorchFunctionMode):
    """Stands in for the calls that a CPU-only PyTorch refuses on `cuda` tensors."""

    def __init__(self, current: Copier) -> None:
        super().__init__()
        self.current = current

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Take what is named above; pass on the rest."""
        kwargs = kwargs or {}
        if func is torch.Tensor.contiguous:
            layout = kwargs.get("memory_format", args[1] if len(args) > 1 else torch.contiguous_format)
            return args[0] if args[0].is_contiguous(memory_format=layout) else args[0].clone(memory_format=layout)
        if func is torch.Tensor.copy_:
            self.current.copy(args[1], args[0])
            return args[0]
        if func is torch.Tensor.cuda:
            return self._move(args[0], torch.device("cuda"), None)
        if func is torch.Tensor.to:
            device, dtype, _, layout = torch._C._nn._parse_to(*args[1:], **kwargs)
            return args[0] if layout is not None and device is None else self._move(args[0], device, dtype)
        if func in _READERS and args[0].device.type == "cuda":
            raise Refusal(Outcome.DATA_DEPENDENT, f"forward calls {func.__name__}, which needs values")
        if func is torch.Tensor.__getitem__:
            return index(args[0], args[1])
        if func is torch.Tensor.__setitem__:
            target, value = index(args[0], args[1]), args[2]
            if isinstance(value, torch.Tensor):
                self.current.copy(value, target)
            else:
                target.fill_(value)
            return None
        return func(*args, **kwargs)

    def _move(self, tensor: torch.Tensor, device: torch.device | None, dtype: torch.dtype | None) -> torch.Tensor:
        if device is None or device.type == tensor.device.type:
            return tensor if dtype in (None, tensor.dtype) else tensor.to(dtype)
        moved = torch.empty(tensor.shape, dtype=dtype or tensor.dtype, device=device)
        self.current.copy(tensor, moved)
        return moved
