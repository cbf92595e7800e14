"""Operations on blocks that the interpreter computes otherwise than compiled code, or not at all.

- `tl.maximum`, `tl.minimum` and `tl.clamp` skip NaN unless told otherwise.
- `tl.cat` and a reshape that may reorder do so: by a permutation drawn for each size.
- `tl.gather` has nothing outside of its block, and `tl.histogram` nothing outside of its bins.
- Atomics exchange floats, and add bfloat16 numbers and not their codes.
- Where several lanes of an atomic have one address, threads do it side by side, in an order that is nobody's to choose:
  it is drawn. What no order changes (a sum, a largest value, a histogram) comes out the same.
- A number that a block is filled with keeps its own data's type: a comparison's result says its operands' type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from ...kernel_source import NotKernelLanguage
from .patches import BUILDER, around, replace
from .poison import make_lanes
from .rounding import narrow, widen
from .run_state import current_run


def _clamp(self: Any, value: Any, low: Any, high: Any, propagates: Any) -> Any:
    if propagates == tl.PropagateNan.ALL:
        return self.ternary_op(value, low, high, np.clip)
    return self.binary_op(self.binary_op(value, low, np.fmax), high, np.fmin)


def _reordered(data: Any) -> Any:
    order = np.random.default_rng((current_run().seed, data.size)).permutation(data.size)
    return data.reshape(-1)[order].reshape(data.shape)


def _concatenate(self: Any, left: Any, right: Any) -> Any:
    return interpreter.TensorHandle(_reordered(np.concatenate([left.data, right.data])), left.dtype.scalar)


def _reshape(self: Any, value: Any, shape: Any, may_reorder: bool) -> Any:
    data = _reordered(value.data) if may_reorder else value.data
    return interpreter.TensorHandle(data.reshape(shape), value.dtype.scalar)


def _count(self: Any, values: Any, num_bins: int, mask: Any) -> Any:
    data = values.data.reshape(-1)
    chosen = data if mask is None else data[np.broadcast_to(mask.data, values.data.shape).reshape(-1)]
    if np.any((chosen < 0) | (chosen >= num_bins)):
        raise NotKernelLanguage("tl.histogram counts values that no bin is for; leave them out by mask=")
    return interpreter.TensorHandle(np.bincount(chosen, minlength=num_bins).astype(np.int32), tl.int32)


def _gather(self: Any, source: Any, indices: Any, axis: int) -> Any:
    """Gather, with poison for what lies outside of the block."""
    size = source.data.shape[axis]
    places = indices.data.astype(np.int64)
    outside = (places < 0) | (places >= size)
    found = np.take_along_axis(source.data, np.where(outside, 0, places), axis=axis)
    if outside.any():
        found = np.where(outside, make_lanes(source.dtype.scalar, found.shape), found)
    return interpreter.TensorHandle(found, source.dtype.scalar)


def _splat(self: Any, kind: Any, value: Any) -> Any:
    return interpreter.TensorHandle(np.full(kind.shape, value.data, dtype=value.data.dtype), value.dtype.scalar)


def _refusal(name: str) -> Any:
    def refuse(*_: Any) -> Any:
        raise NotKernelLanguage(f"the interpreter has no {name}")

    return refuse


def _exchange_bits(
    self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *options: Any, original: Any
) -> Any:
    """Exchange bits, whatever they mean; the interpreter exchanges integers alone."""
    dtype = value.data.dtype
    is_exchange = self.ir_rmw_op_to_interpreter_rmw_op.get(operation) == interpreter._interpreter.RMW_OP.XCHG
    if not is_exchange or dtype not in (np.float32, np.float64):
        return original(self, operation, pointers, value, mask, *options)
    kind = tl.core.get_int_dtype(8 * dtype.itemsize, True)
    bits = interpreter.TensorHandle(value.data.view(f"i{dtype.itemsize}"), kind)
    old = original(self, operation, pointers, bits, mask, *options)
    return interpreter.TensorHandle(old.data.view(dtype), value.dtype.scalar)


_ON_BFLOAT16: dict[Any, Any] = {
    interpreter._interpreter.RMW_OP.FADD: np.add,
    interpreter._interpreter.RMW_OP.XCHG: lambda old, new: new,
}


def _atomic_on_bfloat16(
    self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *options: Any, original: Any
) -> Any:
    if value.dtype.scalar != tl.bfloat16:
        return original(self, operation, pointers, value, mask, *options)
    function = _ON_BFLOAT16[self.ir_rmw_op_to_interpreter_rmw_op[operation]]
    olds = np.zeros_like(value.data)
    for at in np.ndindex(pointers.data.shape):  # one after the other, as addresses may repeat
        if mask.data[at]:
            address = np.array([pointers.data[at]], dtype=np.uint64)
            held = interpreter._interpreter.load(address, np.array([True]), np.zeros(1, np.uint16), np.dtype(np.uint16))
            olds[at] = held[0]
            sums = narrow(function(widen(held), widen(np.array([value.data[at]]))))
            interpreter._interpreter.store(address, sums, np.array([True]))
    return interpreter.TensorHandle(olds, value.dtype.scalar)


def _in_any_order(self: Any, *arguments: Any, original: Any, first: int) -> Any:
    """Combine lanes in a drawn order; the three operands that have lanes begin at argument `first`."""
    before, operands, after = arguments[:first], arguments[first : first + 3], arguments[first + 3 :]
    shape = operands[0].data.shape
    size = operands[0].data.size
    if size < 2:
        return original(self, *arguments)
    run = current_run()
    run.num_atomics += 1
    order = np.random.default_rng((run.seed, run.num_atomics, size)).permutation(size)
    flat = [
        interpreter.TensorHandle(np.broadcast_to(one.data, shape).reshape(-1)[order], one.dtype) for one in operands
    ]
    found = original(self, *before, *flat, *after)
    result = np.empty_like(found.data)
    result[order] = found.data
    return interpreter.TensorHandle(result.reshape(shape), found.dtype)


PATCHES = (
    replace(BUILDER, "create_splat", _splat),
    replace(BUILDER, "create_maxnumf", lambda self, left, right: self.binary_op(left, right, np.fmax)),
    replace(BUILDER, "create_minnumf", lambda self, left, right: self.binary_op(left, right, np.fmin)),
    replace(BUILDER, "create_clampf", _clamp),
    replace(BUILDER, "create_cat", _concatenate),
    replace(BUILDER, "create_reshape", _reshape),
    replace(BUILDER, "create_histogram", _count),
    replace(BUILDER, "create_gather", _gather),
    replace(BUILDER, "create_inline_asm", _refusal("inline assembly")),
    replace(BUILDER, "create_dot_scaled", _refusal("tl.dot_scaled")),
    around(BUILDER, "create_atomic_rmw", _exchange_bits),
    around(BUILDER, "create_atomic_rmw", _atomic_on_bfloat16),
)
ORDER_PATCHES = (
    replace(BUILDER, "create_splat", _splat),
    around(BUILDER, "create_atomic_rmw", _in_any_order, first=1),
    around(BUILDER, "create_atomic_cas", _in_any_order, first=0),
)
