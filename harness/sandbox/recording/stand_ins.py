"""Replace a model's tensors by ones without memory, and take the values that a plan must carry.

Parameters and buffers stand on the device, as a user's `model.to("cuda")` leaves them; what the model holds otherwise,
in lists and dictionaries too, stays on the CPU and is a constant of the plan. Tensors that are one stay one.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from attrs import frozen

from ....core.outcome import Outcome
from ....core.plan import BufferKind
from .fake_tensors import CPU, CUDA, FakeDevices, raw_bytes
from .refusal import Refusal

_MAX_BLOB_BYTES = 192 << 20
"""Of values that the reference has not: what reference programs within the judge's reach may have, in one answer."""


@frozen(kw_only=True, eq=False)
class StandIn:
    """A tensor in a model's place for one of its own; `blob` names its values, null where they are not taken."""

    tensor: torch.Tensor
    kind: BufferKind
    name: str
    blob: str | None


def replace_tensors(
    model: torch.nn.Module, devices: FakeDevices, blobs: dict[str, bytes], with_parameters: bool
) -> list[StandIn]:
    """Replace all tensors of a model, and put into `blobs` the values of constants and, if asked, of parameters."""
    swap = _Swap(devices, blobs, with_parameters)
    modules = [(module, f"{prefix}." if prefix else "") for prefix, module in model.named_modules()]
    # all of them first: an attribute that keeps another module's parameter moves with it
    for module, start in modules:
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                module._parameters[name] = swap.stand_in_for_parameter(parameter, start + name)
    for module, start in modules:
        for name, buffer in list(module._buffers.items()):
            if buffer is not None:
                module._buffers[name] = swap.stand_in(buffer, BufferKind.PARAMETER, start + name, CUDA)
        for name, value in list(vars(module).items()):
            if name not in ("_parameters", "_buffers", "_modules"):
                replaced = swap.replace_within(value, start + name)
                if replaced is not value:
                    vars(module)[name] = replaced
    return swap.made


class _Swap:
    """The stand-ins of one model, by the tensors for which they stand."""

    def __init__(self, devices: FakeDevices, blobs: dict[str, bytes], with_parameters: bool) -> None:
        self.made: list[StandIn] = []
        self._devices = devices
        self._blobs = blobs
        self._with_parameters = with_parameters
        self._by_id: dict[int, torch.Tensor] = {}
        self._kept: list[torch.Tensor] = []
        """What was replaced: its identity is nobody else's as long as it lives."""

    def stand_in(self, tensor: torch.Tensor, kind: BufferKind, name: str, device: torch.device) -> torch.Tensor:
        if id(tensor) in self._by_id:
            return self._by_id[id(tensor)]
        made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        self._devices.place(made, device)
        is_taken = kind is BufferKind.CONSTANT or self._with_parameters
        blob = self._take_values(tensor) if is_taken and not tensor.is_meta else None
        self.made.append(StandIn(tensor=made, kind=kind, name=name, blob=blob))
        self._kept.append(tensor)
        self._by_id[id(tensor)] = made
        return made

    def stand_in_for_parameter(self, original: torch.nn.Parameter, name: str) -> torch.nn.Parameter:
        made = self.stand_in(original, BufferKind.PARAMETER, name, CUDA)
        if isinstance(made, torch.nn.Parameter):
            return made
        parameter = torch.nn.Parameter(made, requires_grad=original.requires_grad)
        self._by_id[id(original)] = parameter  # so that tied weights stay tied
        return parameter

    def replace_within(self, value: Any, name: str) -> Any:
        """Return an attribute's value with its tensors replaced: the very value where it holds none."""
        if isinstance(value, torch.Tensor):
            return self.stand_in(value, BufferKind.CONSTANT, name, CPU)
        if type(value) in (list, tuple) and any(isinstance(item, torch.Tensor) for item in value):
            return type(value)(self.replace_within(item, name) for item in value)
        if type(value) is dict and any(isinstance(item, torch.Tensor) for item in value.values()):
            return {key: self.replace_within(item, name) for key, item in value.items()}
        return value

    def _take_values(self, tensor: torch.Tensor) -> str:
        data = raw_bytes(tensor)
        if len(data) > _MAX_BLOB_BYTES:
            raise Refusal(Outcome.UNSUPPORTED, f"a tensor of {len(data)} bytes is too large for a plan")
        sha256 = hashlib.sha256(data).hexdigest()
        self._blobs[sha256] = data
        return sha256
