"""Fake tensors: of the class that real ones have, without memory or values, on devices that they claim to be on.

Host code must not be able to tell what is recorded from what is used, or it could launch for the one and cheat for the
other. PyTorch's fake tensors are a class of their own, which `type` gives away. A tensor on the `meta` device is a
plain `torch.Tensor` of any size at no cost; what it would give away, its device above all, is answered here. Which
device a tensor is on is known by its storage, as views share it.

What can still tell. The function mode itself: `has_torch_function` is true while one is active, and private functions
count modes; the AST stage refuses both names, whatever holds them. A clock, if host code finds one. A tensor's storage
would say where it is, and the device's memory how much of it is used: both are refused. Addresses are those of a
process that has just begun and frees nothing (`Allocator`): that a freed tensor's address is given again still tells.
Whatever tells, the plan is what is run, timed and rewarded, so it is a candidate's user that is deceived, never the
judge.

PyTorch's caching allocator, whose addresses are imitated, takes segments from the driver and cuts them into blocks:
small tensors from segments of 2 MB, larger ones from segments of 20 MB, and the largest have one of their own, in
multiples of 2 MB (`c10/cuda/CUDACachingAllocator`). The driver gives segments one after another. Where the first one
lies is drawn, as it differs between processes.

Tensors that host code makes of numbers (`torch.tensor`, `torch.arange`) compute nothing from any input, and a kernel
may need them (a table of positions, a coefficient): they are constants of a plan, their values beside it. What one pass
made and kept is known again in the next, also at other sizes (`HostConstants`).

A model's own tensors are replaced by fake ones (`replace_tensors`), and the values that a plan must carry are taken.
Parameters and buffers stand on the device, as a user's `model.to("cuda")` leaves them; what the model holds otherwise,
in lists and dictionaries too, stays on the CPU and is a constant of the plan. Tensors that are one stay one.
"""

from __future__ import annotations

import ctypes
import hashlib
import random
from collections.abc import Callable
from typing import Any

import torch
from attrs import frozen

from ....core.outcome import Outcome
from ....core.plan import BufferKind
from .refusal import Refusal

CPU = torch.device("cpu")
CUDA = torch.device("cuda", 0)


def require_one_gpu(device: torch.device) -> None:
    """Raise, as CUDA does, where a device is a GPU beside the one that every user has."""
    if device.index:
        raise RuntimeError("CUDA error: invalid device ordinal")


class FakeDevices:
    """Devices and addresses that tensors without memory claim to have."""

    def __init__(self, seed: int = 0) -> None:
        self._of: dict[int, tuple[torch.device, int]] = {}
        self._allocators = {device.type: Allocator(seed, device.type) for device in (CPU, CUDA)}
        self.has_told_addresses = False
        self._kept: list[Any] = []  # storages, so that an identity is never used twice

    def place(self, tensor: torch.Tensor, device: torch.device) -> None:
        """Say where a tensor is that was made just now."""
        with torch._C.DisableTorchFunction():
            storage = tensor.untyped_storage()
            self._kept.append(storage)
            require_one_gpu(device)
            where = device if device.type == "cpu" else CUDA
            self._of[storage._cdata] = (where, self._allocators[where.type].take(storage.nbytes()))

    def find(self, tensor: torch.Tensor) -> torch.device | None:
        """Return where a tensor is, or None for one that has just been made."""
        with torch._C.DisableTorchFunction():
            if not tensor.is_meta:
                return CPU
            known = self._of.get(tensor.untyped_storage()._cdata)
            return None if known is None else known[0]

    def of(self, tensor: torch.Tensor) -> torch.device:
        """Return where a tensor is; one that was made out of sight is where its inputs were."""
        return self.find(tensor) or CUDA

    def is_on_device(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is on the GPU that is not there."""
        return self.of(tensor).type == "cuda"

    def address(self, tensor: torch.Tensor) -> int:
        """Return an address as a GPU's allocator could give it."""
        self.has_told_addresses = True
        with torch._C.DisableTorchFunction():
            if not tensor.is_meta:
                return tensor.data_ptr()
            if tensor.numel() == 0:
                return 0
            storage = tensor.untyped_storage()
            if storage._cdata not in self._of:
                self.place(tensor, CPU)
            return self._of[storage._cdata][1] + int(tensor.storage_offset()) * tensor.element_size()


def _write(devices: FakeDevices, tensor: torch.Tensor) -> str:
    with torch._C.DisableTorchFunction():
        if not tensor.is_meta:
            return repr(tensor)
    raise Refusal(Outcome.DATA_DEPENDENT, "forward writes a tensor's values into a text")


def _type(devices: FakeDevices, tensor: torch.Tensor) -> str:
    with torch._C.DisableTorchFunction():
        name: str = tensor.type().replace(".meta.", ".")
    return name.replace("torch.", "torch.cuda.") if devices.is_on_device(tensor) else name


def _refuse_storage(devices: FakeDevices, tensor: torch.Tensor) -> Any:
    raise Refusal(Outcome.UNSUPPORTED, "host code asks for a tensor's storage, which cannot be recorded")


_Answer = Callable[[FakeDevices, torch.Tensor], Any]
ANSWERS: dict[Any, _Answer] = {
    torch.Tensor.device.__get__: FakeDevices.of,
    torch.Tensor.is_cuda.__get__: FakeDevices.is_on_device,  # type: ignore[attr-defined]
    torch.Tensor.is_cpu.__get__: lambda devices, tensor: not devices.is_on_device(tensor),  # type: ignore[attr-defined]
    torch.Tensor.is_meta.__get__: lambda devices, tensor: False,  # type: ignore[attr-defined]
    torch.Tensor.get_device: lambda devices, tensor: 0 if devices.is_on_device(tensor) else -1,
    torch.get_device: lambda devices, tensor: 0 if devices.is_on_device(tensor) else -1,
    torch.Tensor.is_shared: FakeDevices.is_on_device,
    torch.Tensor.is_pinned: lambda devices, tensor: False,
    torch.Tensor.data_ptr: FakeDevices.address,
    torch.Tensor.__repr__: _write,
    torch.Tensor.untyped_storage: _refuse_storage,
    torch.Tensor.storage: _refuse_storage,
    torch.Tensor._typed_storage: _refuse_storage,
    torch.Tensor.storage_type: _refuse_storage,
    torch.Tensor.share_memory_: _refuse_storage,
}
"""Calls with a tensor as their only argument; `repr` among them."""


def answer(devices: FakeDevices, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, Any]:
    """Return whether a call asks what only `FakeDevices` know, and the answer."""
    if func in ANSWERS and args and isinstance(args[0], torch.Tensor):
        return True, ANSWERS[func](devices, args[0])
    if func is torch.Tensor.__format__ and args[0].is_meta:
        return True, _write(devices, args[0])
    if func is torch.Tensor.type and len(args) == 1 and not kwargs:
        return True, _type(devices, args[0])
    return False, None


_BLOCK = 512
_MEGABYTE = 1 << 20
_SEGMENT = 2 * _MEGABYTE
_LARGE_SEGMENT = 20 * _MEGABYTE
_MOST_SMALL = _MEGABYTE
_LEAST_OWN = 10 * _MEGABYTE
_FIRST, _LAST = 0x7E00_0000_0000, 0x7FF0_0000_0000


class Allocator:
    """One device's addresses, drawn by a seed."""

    def __init__(self, seed: int, device: str) -> None:
        self._next_segment = random.Random(f"{seed}:{device}").randrange(_FIRST, _LAST, _SEGMENT)
        self._begun: dict[int, tuple[int, int]] = {}  # of each kind of segment, where its free part begins and ends

    def take(self, num_bytes: int) -> int:
        """Return the address of so many bytes that nothing else has."""
        size = max(1, -(-num_bytes // _BLOCK)) * _BLOCK
        if size >= _LEAST_OWN:
            return self._take_segment(-(-size // _SEGMENT) * _SEGMENT)
        length = _SEGMENT if size <= _MOST_SMALL else _LARGE_SEGMENT
        begin, end = self._begun.get(length, (0, 0))
        if end - begin < size:
            begin = self._take_segment(length)
            end = begin + length
        self._begun[length] = (begin + size, end)
        return begin

    def _take_segment(self, length: int) -> int:
        begin, self._next_segment = self._next_segment, self._next_segment + length
        return begin


MAX_ELEMENTS = 1 << 16
MAKERS = frozenset({"arange", "lift_fresh", "scalar_tensor"})
"""ATen's names of what makes them; `torch.tensor` and `torch.as_tensor` end in `lift_fresh`."""


def raw_bytes(tensor: torch.Tensor) -> bytes:
    """Return the bytes of the tensor's whole storage span, in the order that its strides give."""
    flat = torch.zeros(1, dtype=tensor.dtype).new_empty_strided(tensor.shape, tensor.stride())
    flat.copy_(tensor.detach())
    storage = flat.untyped_storage()
    return ctypes.string_at(storage.data_ptr(), storage.nbytes()) if storage.nbytes() else b""


class HostConstants:
    """Collects the constants that the passes of a candidate made; `blobs` takes their values by SHA-256."""

    def __init__(self, blobs: dict[str, bytes]) -> None:
        self._blobs = blobs
        self._sha256_of: dict[int, str] = {}
        self._kept: list[torch.UntypedStorage] = []  # so that an identity is never used twice

    def keep(self, values: torch.Tensor, stand_in: torch.Tensor) -> None:
        """Let a tensor without values stand for a contiguous one that has some."""
        data = raw_bytes(values)
        sha256 = hashlib.sha256(data).hexdigest()
        self._blobs[sha256] = data
        self._note(stand_in, sha256)

    def share(self, tensor: torch.Tensor, moved: torch.Tensor) -> str | None:
        """Let a copy on another device stand for the same values; None where the tensor is no whole constant."""
        sha256 = self.find(tensor)
        is_whole = tensor.is_contiguous() and tensor.nbytes == tensor.untyped_storage().nbytes()
        if sha256 is None or not is_whole or tensor.dtype != moved.dtype:
            return None
        self._note(moved, sha256)
        return sha256

    def _note(self, stand_in: torch.Tensor, sha256: str) -> None:
        storage = stand_in.untyped_storage()
        self._kept.append(storage)
        self._sha256_of[storage._cdata] = sha256

    def find(self, tensor: torch.Tensor) -> str | None:
        """Return the SHA-256 of the values that a tensor's storage stands for, or None."""
        return self._sha256_of.get(tensor.untyped_storage()._cdata)


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


class OnCpu(torch.overrides.TorchFunctionMode):
    """Keeps on the CPU what `__init__` would place on the device; the model is moved afterwards anyway."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Rewrite the device argument."""
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0]
        if kwargs.get("device") is not None:
            kwargs["device"] = "cpu"
        if func is torch.Tensor.to:
            args = tuple("cpu" if _is_device(value) else value for value in args)
        return func(*args, **kwargs)


def _is_device(value: Any) -> bool:
    return isinstance(value, torch.device) or (isinstance(value, str) and value.partition(":")[0] in ("cuda", "cpu"))
