"""Calls on tensors that a recording answers itself, one level above PyTorch's operators.

What would tell that there is no GPU is answered by `fake_tensors`. A build of PyTorch without CUDA refuses moves to a
GPU before it dispatches any operator. Conversions to a Python number need values that a recording does not have, and
say so. On every build the same operators are recorded.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ....core.outcome import Outcome
from .fake_tensors import CPU, CUDA, FakeDevices, answer, require_one_gpu
from .forward_pass import ForwardTrace
from .refusal import Refusal

_READERS = {
    getattr(torch.Tensor, name)
    for name in (
        *("__array__", "__bool__", "__complex__", "__dlpack__", "__float__", "__index__", "__int__"),
        *("item", "numpy", "tolist"),
    )
}
_MAKERS = (torch.tensor, torch.as_tensor, torch.asarray)


class TensorCalls(TorchFunctionMode):
    """Stands in for the calls that need a device; without a pass nothing is recorded, as while a model is built."""

    def __init__(self, devices: FakeDevices, current: ForwardTrace | None) -> None:
        super().__init__()
        self.devices = devices
        self.current = current

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Take what is named above; pass on the rest."""
        kwargs = kwargs or {}
        is_answered, found = answer(self.devices, func, args, kwargs)
        if is_answered:
            return found
        if func is torch.Tensor.cuda:
            return self._move(args[0], CUDA, None)
        if func is torch.Tensor.cpu:
            return self._move(args[0], CPU, None)
        if func is torch.Tensor.to:
            return self._convert(args[0], args[1:], kwargs)
        if func in _MAKERS:
            return self._make(func, args, kwargs)
        if func in _READERS and args[0].is_meta:
            raise Refusal(Outcome.DATA_DEPENDENT, f"forward calls {func.__name__}, which needs values")
        if func is torch.Tensor.__setitem__ and self.current is not None:
            # PyTorch would make a tensor of a number first
            target, value = args[0][args[1]], args[2]
            target.copy_(value) if isinstance(value, torch.Tensor) else target.fill_(value)
            return None
        return func(*args, **kwargs)

    def _convert(self, tensor: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
        other = args[0] if args else kwargs.get("other")
        if isinstance(other, torch.Tensor):
            return self._move(tensor, self.devices.of(other), other.dtype)
        device, dtype, _, layout = torch._C._nn._parse_to(*args, **kwargs)
        return tensor if layout is not None and device is None else self._move(tensor, device, dtype)

    def _make(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
        """Make a tensor of numbers that the host code gives."""
        others = dict(kwargs)
        device = others.pop("device", None)
        device = None if device is None else torch.device(device)
        if args and isinstance(args[0], torch.Tensor) and func is not torch.tensor:
            return self._move(args[0], device, others.get("dtype"))
        made: torch.Tensor = func(*args, **others)
        if made.is_meta and device is not None:
            self.devices.place(made, device)
        return made

    def _move(self, tensor: torch.Tensor, device: torch.device | None, dtype: torch.dtype | None) -> torch.Tensor:
        if device is not None:
            require_one_gpu(device)
        if device is None or device.type == self.devices.of(tensor).type:
            return tensor if dtype in (None, tensor.dtype) else tensor.to(dtype)
        moved = torch.empty(tensor.shape, dtype=dtype or tensor.dtype, device=device)
        if self.current is not None:
            self.current.move(tensor, moved)
        return moved
