"""In which order the lanes of one atomic operation take place: nobody's to choose on a GPU, and drawn here.

Triton's interpreter takes them by their numbers. Where several lanes of a block have one address, a kernel could rely
on that: the last of them to exchange a value leaves it, and what each gets back counts those before it. On a GPU
threads do it side by side. What no order changes (a sum, a largest value, a histogram) comes out the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_drawn = [0, 0]
"""The seed, and how many operations have drawn an order since."""


def order_by(seed: int) -> None:
    """Draw the orders of all atomic operations from here on."""
    _drawn[:] = seed, 0


def install() -> None:
    """Let the lanes of each atomic operation of this process's interpreter come in a drawn order."""
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    plain_combine, plain_swap = builder.create_atomic_rmw, builder.create_atomic_cas

    def combine(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *options: Any) -> Any:
        return _in_drawn_order(
            lambda at, new, lanes: plain_combine(self, operation, at, new, lanes, *options), pointers, value, mask
        )

    def swap(self: Any, pointers: Any, expected: Any, value: Any, *options: Any) -> Any:
        return _in_drawn_order(lambda at, old, new: plain_swap(self, at, old, new, *options), pointers, expected, value)

    builder.create_atomic_rmw, builder.create_atomic_cas = combine, swap


def _in_drawn_order(operate: Any, *operands: Any) -> Any:
    from triton.runtime.interpreter import TensorHandle

    shape = operands[0].data.shape
    size = operands[0].data.size
    if size < 2:
        return operate(*operands)
    _drawn[1] += 1
    order = np.random.default_rng((*_drawn, size)).permutation(size)
    flat = [TensorHandle(np.broadcast_to(one.data, shape).reshape(-1)[order], one.dtype) for one in operands]
    found = operate(*flat)
    result = np.empty_like(found.data)
    result[order] = found.data
    return TensorHandle(result.reshape(shape), found.dtype)
