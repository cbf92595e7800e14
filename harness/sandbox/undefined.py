"""What memory holds that nobody may rely on, chosen so that relying on it shows.

On a GPU three things are whatever was there: memory that nothing has written, memory outside a tensor, and the lanes
of a masked load without `other=`. Triton's interpreter puts zeros in such lanes, so a kernel that sums them would pass
here and be wrong there. So each is NaN, or for integers an unlikely value; lanes that are only stored under the same
mask do no harm. Guard bands differ from buffer to buffer, and those of floats are signalling NaNs: arithmetic makes
them quiet and a copy brings another buffer's payload, so what a kernel writes outside its buffer is seen as a change.
An access outside every buffer would end a GPU's process, and here do anything: it is refused before it happens.
"""

from __future__ import annotations

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
"""Odd, so that sums of it do not wrap around to 0, and small enough that sums over a block do not overflow, which NumPy
refuses even in lanes that are never stored."""
_NUM_PAYLOADS = 63  # bfloat16 has six bits


class StrayAccess(Exception):
    """A kernel's load, store or atomic whose address lies outside every buffer of the plan."""

    def __str__(self) -> str:
        return "a kernel accessed memory outside every buffer"


_allowed = [0, 0]


def confine_accesses(start: int, stop: int) -> None:
    """Let kernels access the addresses in [start, stop) alone, until the next call.

    Triton's interpreter would read and write anything: the process might end or go on, by luck.
    """
    _allowed[:] = start, stop


def _check(pointers: Any, mask: Any) -> None:
    chosen = np.broadcast_to(np.asarray(mask, dtype=bool), pointers.data.shape)
    addresses = pointers.data[chosen]
    if addresses.size:
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        if int(addresses.min()) < _allowed[0] or int(addresses.max()) + size > _allowed[1]:
            raise StrayAccess


def unwritten(dtype: torch.dtype) -> float | int | bool:
    """What a temporary holds before anything writes it."""
    if dtype.is_floating_point:
        return float("nan")
    return True if dtype is torch.bool else torch.iinfo(dtype).min


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
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    original = builder.create_masked_load

    def load(self: Any, pointers: Any, mask: Any, other: Any, *options: Any) -> Any:
        _check(pointers, mask.data)
        if other is None and not np.all(mask.data):
            kind = pointers.get_element_ty()
            values = np.full_like(pointers.data, _undefined(kind), dtype=interpreter._get_np_dtype(kind))
            other = interpreter.TensorHandle(values, kind)
        return original(self, pointers, mask, other, *options)

    store_unchecked, combine_unchecked = builder.create_masked_store, builder.create_atomic_rmw
    swap_unchecked = builder.create_atomic_cas

    def store(self: Any, pointers: Any, value: Any, mask: Any, *options: Any) -> Any:
        _check(pointers, mask.data)
        return store_unchecked(self, pointers, value, mask, *options)

    def combine(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *options: Any) -> Any:
        _check(pointers, mask.data)
        return combine_unchecked(self, operation, pointers, value, mask, *options)

    def swap(self: Any, pointers: Any, *operands: Any) -> Any:
        _check(pointers, True)
        return swap_unchecked(self, pointers, *operands)

    builder.create_masked_load, builder.create_masked_store = load, store
    builder.create_atomic_rmw, builder.create_atomic_cas = combine, swap


def _undefined(kind: Any) -> Any:
    from triton.runtime import interpreter

    if kind.is_bf16():
        return 0x7FC0  # codes, as NumPy has neither type
    if kind.is_fp8():
        return 0x7F
    dtype = np.dtype(interpreter._get_np_dtype(kind))
    if dtype.kind == "f":
        return np.nan
    if dtype.kind == "b":
        return True
    limits = np.iinfo(dtype)
    return max(limits.min + 1, -_INTEGER) if dtype.kind == "i" else min(limits.max, _INTEGER)
