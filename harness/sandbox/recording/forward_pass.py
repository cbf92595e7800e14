"""One recorded forward pass: what ATen does to storages, and in which order with the launches.

Tensors without memory (`fake_tensors`) flow through the candidate's host code. Views are followed through the storage
that they share; allocations become temporaries; fills and copies become steps, also as parts of `cat`, `stack` and
`pad` (`copies`); what is made of numbers becomes a constant. Every other operator, a conversion that computes among
them, is named in `arithmetic`, becomes a step where a plan can hold it (`aten_steps`), and the pass continues with a
result that has its size and no values.
One level above the operators, `TensorCalls` answers what would tell that there is no GPU (`fake_tensors`), moves to a
GPU, which a build of PyTorch without CUDA refuses before any dispatch, and conversions to a Python number, whose values
a recording does not have. On every build the same operators are recorded.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from attrs import evolve
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ....core.outcome import Outcome
from ....core.plan import Buffer, BufferKind, Copy, Fill, LaunchPlan, Step, View
from .aten_steps import converts_by_computing, describe_operator, tensors_in
from .fake_tensors import CPU, CUDA, MAKERS, MAX_ELEMENTS, FakeDevices, answer, require_one_gpu
from .launches import LaunchRecorder
from .refusal import Refusal

_EMPTY = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"}
_ZEROS = {"zeros", "zeros_like", "new_zeros"}
_ONES = {"ones", "ones_like", "new_ones"}
_FULL = {"full": 1, "full_like": 1, "new_full": 2}
_COPIES = {"clone", "_to_copy", "contiguous", "lift_fresh_copy", "view_copy"}
_NEEDING_VALUES = {"_local_scalar_dense", "item", "equal", "nonzero", "is_nonzero"}
_TAGS_NEEDING_VALUES = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
_BETWEEN_DEVICES = {"copy_", "index", "index_put", "index_put_", "_index_put_impl_"}
_READERS = {
    getattr(torch.Tensor, name)
    for name in (
        *("__array__", "__bool__", "__complex__", "__dlpack__", "__float__", "__index__", "__int__"),
        *("item", "numpy", "tolist"),
    )
}
_FROM_NUMBERS = (torch.tensor, torch.as_tensor, torch.asarray)


def dtype_name(dtype: torch.dtype) -> str:
    """Return the dtype's name without "torch."."""
    return str(dtype).removeprefix("torch.")


class ForwardTrace:
    """Records a plan step by step; `add_buffer` tells it which storages exist before forward."""

    def __init__(self, recorder: LaunchRecorder) -> None:
        self.recorder = recorder
        self.constants = recorder.constants
        self.buffers: list[Buffer] = []
        self.steps: list[Step] = []
        self.arithmetic: list[str] = []
        self._index_of: dict[int, int] = {}
        self._kept: list[Any] = []  # storages, so that an identity is never used twice

    def add_buffer(self, tensor: torch.Tensor, kind: BufferKind, name: str, blob: str | None = None) -> None:
        """Make the tensor's storage a buffer of the plan."""
        storage = tensor.untyped_storage()
        if storage._cdata in self._index_of:
            return
        self._kept.append(storage)
        self._index_of[storage._cdata] = len(self.buffers)
        num_elements = storage.nbytes() // tensor.element_size()
        self.buffers.append(
            Buffer(kind=kind, name=name, dtype=dtype_name(tensor.dtype), num_elements=num_elements, blob=blob)
        )

    def knows(self, tensor: torch.Tensor) -> bool:
        """Return whether the tensor is a view of one of the plan's buffers."""
        return tensor.untyped_storage()._cdata in self._index_of

    def view(self, tensor: torch.Tensor) -> View:
        """Return the tensor as a view of its buffer.

        Raises where its values came from nowhere that a plan can express.
        """
        if type(tensor).__name__ not in ("Parameter", "Tensor"):
            raise Refusal(Outcome.UNSUPPORTED, f"a {type(tensor).__name__} cannot be recorded")
        with torch._C.DisableTorchFunction():
            return self._view(tensor)

    def _view(self, tensor: torch.Tensor) -> View:
        if not self.knows(tensor):
            made = self.constants.find(tensor)
            kind = BufferKind.TEMPORARY if made is None else BufferKind.CONSTANT
            self.add_buffer(tensor, kind, "", made)
        return View(
            buffer=self._index_of[tensor.untyped_storage()._cdata],
            offset=int(tensor.storage_offset()),
            shape=tuple(int(size) for size in tensor.shape),
            stride=tuple(int(step) for step in tensor.stride()),
            dtype=dtype_name(tensor.dtype),
        )

    def finish(self, result: Any, target: str | None) -> LaunchPlan:
        """Return the plan that returns `result`."""
        outputs = tuple(self.view(tensor) for tensor in _returned(result))
        return LaunchPlan(
            buffers=tuple(self.buffers),
            kernels=tuple(self.recorder.kernels),
            steps=tuple(self.steps),
            outputs=outputs,
            arithmetic=tuple(self.arithmetic),
            target=target,
        )

    def note(self, name: str, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Account for one ATen call with its result."""
        inputs = list(tensors_in((args, kwargs)))
        outputs = list(tensors_in(result))
        mutable = function._schema.is_mutable
        shared = {tensor.untyped_storage()._cdata for tensor in inputs}
        if not mutable and not outputs:
            return
        if mutable:
            _refuse_values(_written(function, args, kwargs))
        if not mutable and all(tensor.untyped_storage()._cdata in shared for tensor in outputs):
            return  # a view
        if name in _EMPTY:
            self._allocate(outputs)
        elif name in _ZEROS or name in _ONES:
            self._fill(outputs, 0.0 if name in _ZEROS else 1.0)
        elif name in _FULL and _is_number(args, _FULL[name]):
            self._fill(outputs, float(args[_FULL[name]]))
        elif name == "zero_":
            self._fill(outputs or inputs[:1], 0.0)
        elif name == "fill_" and _is_number(args, 1):
            self._fill(inputs[:1], float(args[1]))
        elif name in _COPIES and len(inputs) == 1 and not _converts_by_computing(inputs[0], outputs[0]):
            self._allocate(outputs)
            self.copy(inputs[0], outputs[0])
        elif name == "copy_" and len(inputs) == 2 and not _converts_by_computing(inputs[1], inputs[0]):
            self.copy(inputs[1], inputs[0])
        elif name in MOVERS:
            self._allocate(outputs)
            border = padding(name, args, kwargs)
            if border is not None:
                self._fill(outputs, border)
            for source, target in copies(name, args, kwargs, outputs[0]):
                self.copy(source, target)
        else:
            self.arithmetic.append(name)
            step = describe_operator(function, args, kwargs, outputs, self.view)
            if step is not None:
                self.steps.append(step)
            for tensor in outputs:
                self.view(tensor)

    def copy(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Append a copy, the source broadcast to the target's shape."""
        _refuse_values([target])
        if target.numel():
            self.steps.append(Copy(source=self.view(source.expand(target.shape)), target=self.view(target)))

    def move(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Append a copy to another device, new there; what is made of numbers is so there as well."""
        with torch._C.DisableTorchFunction():
            sha256 = self.constants.share(source, target)
        if sha256 is None:
            self.copy(source, target)
            return
        index = self.view(target).buffer
        self.buffers[index] = evolve(self.buffers[index], kind=BufferKind.CONSTANT, blob=sha256)

    def _allocate(self, tensors: Iterable[torch.Tensor]) -> None:
        for tensor in tensors:
            self.add_buffer(tensor, BufferKind.TEMPORARY, "")

    def _fill(self, tensors: Iterable[torch.Tensor], value: float) -> None:
        for tensor in tensors:
            view = self.view(tensor)
            if tensor.numel():
                finite = math.isfinite(value)
                self.steps.append(
                    Fill(target=view, value=value if finite else 0.0, nonfinite=None if finite else str(value))
                )


class DispatchRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Shows a pass each ATen call, and keeps every tensor on the `meta` device.

    Without a pass, as while a model is built, what was made from numbers keeps them until it meets a tensor that has
    none.
    """

    def __init__(self, devices: FakeDevices, current: ForwardTrace | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.devices = devices
        self.current = current

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator without values and account for it."""
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2]
        with torch._C.DisableTorchFunction():
            inputs = list(tensors_in((args, kwargs)))
            if self.current is None and inputs and not any(tensor.is_meta for tensor in inputs):
                return func(*args, **kwargs)
            if name in _NEEDING_VALUES or any(tag in func.tags for tag in _TAGS_NEEDING_VALUES):
                raise Refusal(Outcome.DATA_DEPENDENT, f"forward calls {name}, which needs values")
            device = self._place(name, kwargs, inputs)
            if kwargs.get("device") is not None or not inputs:
                result = func(*_without_values(args), **{**_without_values(kwargs), "device": "meta"})
            else:
                result = func(*_without_values(args), **_without_values(kwargs))
            if self.current is not None and _is_made_of_numbers(name, args, result):
                values = inputs[0] if inputs else func(*args, **{**kwargs, "device": "cpu"})
                self.current.constants.keep(values, result)
                self.devices.place(result, device)
                return result
            for tensor in tensors_in(result):
                if self.devices.find(tensor) is None:
                    self.devices.place(tensor, device)
            if self.current is not None:
                self.current.note(name, func, args, kwargs, result)
        return result

    def _place(self, name: str, kwargs: Any, inputs: list[torch.Tensor]) -> torch.device:
        """Return where the operator's result lies; raises as PyTorch does where its inputs are on two devices."""
        if kwargs.get("device") is not None:
            return torch.device(kwargs["device"])
        devices = {self.devices.of(tensor) for tensor in inputs if tensor.dim()}
        if len(devices) > 1 and name not in _BETWEEN_DEVICES:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
            )
        return CUDA if any(map(self.devices.is_on_device, inputs)) else CPU


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
        if func in _FROM_NUMBERS:
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
        if dtype is not None and converts_by_computing(tensor.dtype, dtype):
            tensor = tensor.to(dtype)
        if device is None or device.type == self.devices.of(tensor).type:
            return tensor if dtype in (None, tensor.dtype) else tensor.to(dtype)
        moved = torch.empty(tensor.shape, dtype=dtype or tensor.dtype, device=device)
        if self.current is not None:
            self.current.move(tensor, moved)
        return moved


@contextlib.contextmanager
def recorded(devices: FakeDevices, current: ForwardTrace | None) -> Iterator[None]:
    """Record what is done with tensors; without a pass keep them off the device alone, as while a model is built."""
    with DispatchRecorder(devices, current), TensorCalls(devices, current):
        yield


def _written(function: Any, args: Any, kwargs: Any) -> Iterable[torch.Tensor]:
    for position, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from tensors_in(args[position] if position < len(args) else kwargs.get(argument.name))


def _refuse_values(targets: Iterable[torch.Tensor]) -> None:
    """Refuse to write to tensors with values: they would keep them, and host code could read what no GPU has."""
    if not all(tensor.is_meta for tensor in targets):
        raise Refusal(Outcome.UNSUPPORTED, "forward writes to a tensor that has values; make it in forward")


def _without_values(value: Any) -> Any:
    """Return tensors without values in the place of those that have some, such as a module's constants."""
    if isinstance(value, torch.Tensor):
        return (
            value
            if value.is_meta
            else torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        )
    if isinstance(value, (list, tuple)):
        return type(value)(map(_without_values, value))
    return {key: _without_values(part) for key, part in value.items()} if isinstance(value, dict) else value


def _is_made_of_numbers(name: str, args: Any, result: Any) -> bool:
    if name not in MAKERS or not isinstance(result, torch.Tensor) or not 0 < result.numel() <= MAX_ELEMENTS:
        return False
    return not any(tensor.is_meta for tensor in tensors_in(args))


def _converts_by_computing(source: torch.Tensor, target: torch.Tensor) -> bool:
    return converts_by_computing(source.dtype, target.dtype)


def _is_number(args: Any, position: int) -> bool:
    return len(args) > position and isinstance(args[position], (bool, int, float))


def _returned(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, (list, tuple)) and result and all(isinstance(item, torch.Tensor) for item in result):
        return list(result)
    raise TypeError(f"forward returned {type(result).__name__}, not a tensor or a tuple of tensors")


MOVERS = frozenset({"cat", "constant_pad_nd", "stack"})


def copies(name: str, args: Any, kwargs: Any, result: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Return what is copied where: pairs of a source and a view of the result."""
    if name == "constant_pad_nd":
        yield _inside(args[0], args[1], result)
        return
    dim = int(args[1] if len(args) > 1 else kwargs.get("dim", 0))
    if name == "stack":
        yield from ((source, result.select(dim, at)) for at, source in enumerate(args[0]))
        return
    at = 0
    for source in args[0]:
        if source.dim() == 1 and source.numel() == 0:  # `cat` leaves these out, whatever the others' rank
            continue
        yield source, result.narrow(dim, at, source.size(dim))
        at += source.size(dim)


def _inside(source: torch.Tensor, widths: list[int], result: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what is left of a padded tensor (a negative width cuts), and its place in the result."""
    target = result
    for number in range(len(widths) // 2):
        dim = source.dim() - 1 - number
        before, after = widths[2 * number], widths[2 * number + 1]
        size = source.size(dim) + min(before, 0) + min(after, 0)
        source = source.narrow(dim, max(-before, 0), size)
        target = target.narrow(dim, max(before, 0), size)
    return source, target


def padding(name: str, args: Any, kwargs: Any) -> float | None:
    """Return the number that a call pads with; None for one that does not pad."""
    if name != "constant_pad_nd" or all(width <= 0 for width in args[1]):
        return None
    return float(args[2] if len(args) > 2 else kwargs.get("value", 0.0))
