"""Atomic operations: of which types, and in which order the lanes of one take place.

Triton's interpreter exchanges integers alone, and adds up the codes of bfloat16 numbers. And it takes lanes by their
numbers. Where several lanes of a block have one address, a kernel could rely on that: the last of them to exchange a
value leaves it, and what each gets back counts those before it. On a GPU threads do it side by side, in an order that
is nobody's to choose, so it is drawn. What no order changes (a sum, a largest value, a histogram) comes out the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from .bfloat16 import narrow, widen
from .patches import BUILDER, Patch
from .run_state import current_run


def _exchange_bits(original: Any) -> Any:
    """An exchange moves bits, whatever they mean; the interpreter's own knows integers alone."""

    def exchange(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *options: Any) -> Any:
        dtype = value.data.dtype
        is_exchange = self.ir_rmw_op_to_interpreter_rmw_op.get(operation) == interpreter._interpreter.RMW_OP.XCHG
        if not is_exchange or dtype not in (np.float32, np.float64):
            return original(self, operation, pointers, value, mask, *options)
        kind = tl.core.get_int_dtype(8 * dtype.itemsize, True)
        bits = interpreter.TensorHandle(value.data.view(f"i{dtype.itemsize}"), kind)
        old = original(self, operation, pointers, bits, mask, *options)
        return interpreter.TensorHandle(old.data.view(dtype), value.dtype.scalar)

    return exchange


def _atomic_on_bfloat16(original: Any) -> Any:
    operations: dict[Any, Any] = {
        interpreter._interpreter.RMW_OP.FADD: np.add,
        interpreter._interpreter.RMW_OP.XCHG: lambda old, new: new,
    }

    def combine(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *options: Any) -> Any:
        if value.dtype.scalar != tl.bfloat16:
            return original(self, operation, pointers, value, mask, *options)
        function = operations[self.ir_rmw_op_to_interpreter_rmw_op[operation]]
        olds = np.zeros_like(value.data)
        for at in np.ndindex(pointers.data.shape):  # one after the other, as addresses may repeat
            if mask.data[at]:
                address = np.array([pointers.data[at]], dtype=np.uint64)
                held = interpreter._interpreter.load(
                    address, np.array([True]), np.zeros(1, np.uint16), np.dtype(np.uint16)
                )
                olds[at] = held[0]
                sums = narrow(function(widen(held), widen(np.array([value.data[at]]))))
                interpreter._interpreter.store(address, sums, np.array([True]))
        return interpreter.TensorHandle(olds, value.dtype.scalar)

    return combine


def _in_any_order(original: Any) -> Any:
    def combine(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *options: Any) -> Any:
        return _in_drawn_order(
            lambda at, new, lanes: original(self, operation, at, new, lanes, *options), pointers, value, mask
        )

    return combine


def _swap_in_any_order(original: Any) -> Any:
    def swap(self: Any, pointers: Any, expected: Any, value: Any, *options: Any) -> Any:
        return _in_drawn_order(lambda at, old, new: original(self, at, old, new, *options), pointers, expected, value)

    return swap


def _in_drawn_order(operate: Any, *operands: Any) -> Any:
    shape = operands[0].data.shape
    size = operands[0].data.size
    if size < 2:
        return operate(*operands)
    run = current_run()
    run.num_atomics += 1
    order = np.random.default_rng((run.seed, run.num_atomics, size)).permutation(size)
    flat = [
        interpreter.TensorHandle(np.broadcast_to(one.data, shape).reshape(-1)[order], one.dtype) for one in operands
    ]
    found = operate(*flat)
    result = np.empty_like(found.data)
    result[order] = found.data
    return interpreter.TensorHandle(result.reshape(shape), found.dtype)


PATCHES = (
    Patch(BUILDER, "create_atomic_rmw", _exchange_bits),
    Patch(BUILDER, "create_atomic_rmw", _atomic_on_bfloat16),
)
ORDER_PATCHES = (
    Patch(BUILDER, "create_atomic_rmw", _in_any_order),
    Patch(BUILDER, "create_atomic_cas", _swap_in_any_order),
)
