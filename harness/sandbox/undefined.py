"""What memory holds that nobody may rely on, chosen so that relying on it shows.

On a GPU three things are whatever was there: memory that nothing has written, memory outside a tensor, and the lanes
of a masked load without `other=`. Triton's interpreter puts zeros in such lanes, so a kernel that sums them would pass
here and be wrong there. So each holds a mixture: NaN, which no sum hides (but a maximum does, as it skips NaN), and
both extremes, of which a maximum or a minimum meets one; integers and truth values are mixed alike. Which lane holds
which is drawn anew at every load, the same way in every process. Lanes that are only stored under the same mask do no
harm. Guard bands differ from buffer to buffer, and those of floats are signalling NaNs: arithmetic makes them quiet
and a copy brings another buffer's payload, so what a kernel writes outside its buffer is seen as a change. An access
outside every buffer would end a GPU's process, and here do anything: it is refused before it happens.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

GUARD_BYTES = 1024
_INTEGER_BYTE = 0x81  # negative, and far from what an index or a count is
# (infinity's bits, bytes): an infinity with some of its low bits set, and not the highest of them, is a signalling NaN
_INFINITIES = {
    torch.float64: (0x7FF0000000000000, 8),
    torch.float32: (0x7F800000, 4),
    torch.float16: (0x7C00, 2),
    torch.bfloat16: (0x7F80, 2),
}
_INTEGER = 2**16 + 1
"""Odd, so that sums of it do not wrap around to 0 soon."""
_NUM_PAYLOADS = 63  # bfloat16 has six bits


class StrayAccess(Exception):
    """A kernel's load, store or atomic whose address lies outside every buffer of the plan."""

    def __str__(self) -> str:
        return "a kernel accessed memory outside every buffer"


_allowed = [0, 0]
_loads = [0]  # how many masked loads were filled since the plan began


def confine_accesses(start: int, stop: int) -> None:
    """Let kernels access the addresses in [start, stop) alone, until the next call.

    Triton's interpreter would read and write anything: the process might end or go on, by luck.
    """
    _allowed[:] = start, stop
    _loads[0] = 0


def _check(pointers: Any, mask: Any) -> None:
    chosen = np.broadcast_to(np.asarray(mask, dtype=bool), pointers.data.shape)
    addresses = pointers.data[chosen]
    if addresses.size:
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        if int(addresses.min()) < _allowed[0] or int(addresses.max()) + size > _allowed[1]:
            raise StrayAccess


def make_unwritten(memory: torch.Tensor) -> None:
    """Fill a flat tensor with what a temporary holds before anything writes it; first NaN, where the dtype has one."""
    choices = _choices(memory.dtype)
    for at, choice in enumerate(choices):
        memory[at :: len(choices)] = choice


def _choices(dtype: torch.dtype) -> torch.Tensor:
    if dtype.is_floating_point:
        largest = torch.finfo(dtype).max
        return torch.tensor([float("nan"), largest, -largest], dtype=torch.float64).to(dtype)
    if dtype is torch.bool:
        return torch.tensor([True, False])
    return torch.tensor(_extremes(torch.iinfo(dtype).min, torch.iinfo(dtype).max), dtype=dtype)


def _extremes(low: int, high: int) -> tuple[int, int, int]:
    """Near both ends and in between, such that no two cancel each other."""
    return high - 6, low + 3 if low else 0, min(_INTEGER, high - 21)


def guard_band(dtype: torch.dtype, index: int) -> torch.Tensor:
    """The bytes on each side of the plan's buffer number `index`."""
    if dtype in _INFINITIES:
        infinity, size = _INFINITIES[dtype]
        element = (infinity + 1 + index % _NUM_PAYLOADS).to_bytes(size, "little")
    else:
        element = bytes([_INTEGER_BYTE + index % _NUM_PAYLOADS])
    return torch.frombuffer(bytearray(element * (GUARD_BYTES // len(element))), dtype=torch.uint8)


def install() -> None:
    """Give masked lanes without `other=` undefined values in this process, and refuse stray accesses."""
    import triton.language as tl
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    original = builder.create_masked_load

    def load(self: Any, pointers: Any, mask: Any, other: Any, *options: Any, **named: Any) -> Any:
        # a descriptor's mask is an array, not a handle
        mask = mask if isinstance(mask, interpreter.TensorHandle) else interpreter.TensorHandle(mask, tl.int1)
        _check(pointers, mask.data)
        if other is None and not np.all(mask.data):
            kind = pointers.get_element_ty()
            other = interpreter.TensorHandle(_undefined(kind, pointers.data.shape), kind)
        return original(self, pointers, mask, other, *options, **named)

    store_unchecked, combine_unchecked = builder.create_masked_store, builder.create_atomic_rmw
    swap_unchecked = builder.create_atomic_cas

    def store(self: Any, pointers: Any, value: Any, mask: Any, *options: Any, **named: Any) -> Any:
        mask = mask if isinstance(mask, interpreter.TensorHandle) else interpreter.TensorHandle(mask, tl.int1)
        _check(pointers, mask.data)
        return store_unchecked(self, pointers, value, mask, *options, **named)

    def combine(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *options: Any) -> Any:
        _check(pointers, mask.data)
        return combine_unchecked(self, operation, pointers, value, mask, *options)

    def swap(self: Any, pointers: Any, *operands: Any) -> Any:
        _check(pointers, True)
        return swap_unchecked(self, pointers, *operands)

    builder.create_masked_load, builder.create_masked_store = load, store
    builder.create_atomic_rmw, builder.create_atomic_cas = combine, swap


def _undefined(kind: Any, shape: tuple[int, ...]) -> Any:
    """Values for the lanes of one load; which comes first is drawn from the number of loads so far."""
    from triton.runtime import interpreter

    if kind.is_bf16():
        choices = np.array([0x7FC0, 0x7F7F, 0xFF7F], dtype=np.uint16)  # codes, as NumPy has neither type
    elif kind.is_fp8():
        choices = np.array([0x7F], dtype=np.uint8)
    else:
        dtype = np.dtype(interpreter._get_np_dtype(kind))
        if dtype.kind == "f":
            largest = np.finfo(dtype).max
            choices = np.array([np.nan, largest, -largest], dtype=dtype)
        elif dtype.kind == "b":
            choices = np.array([True, False])
        else:
            choices = np.array(_extremes(np.iinfo(dtype).min, np.iinfo(dtype).max), dtype=dtype)
    _loads[0] += 1
    first = _loads[0] * 0x9E3779B1 % 2**32 >> 16
    return choices[(np.arange(first, first + math.prod(shape)) % len(choices)).reshape(shape)]
