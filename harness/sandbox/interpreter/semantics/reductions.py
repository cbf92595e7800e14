"""Reductions in the order in which compiled code combines, and what becomes of NaN there.

Triton's interpreter goes from left to right, so a function that is not associative, or not commutative, has a result
here that no GPU gives. Compiled, a thread combines what it holds from the first to the last, the threads of a warp as a
butterfly, each with the one half as many lanes away, and the warps alike; seen on an H200. How much a thread holds and
which elements lie beside each other there is not known (`combining`): a function that may be used so is right in any
order. Sums of floats go the same way.

The position of a maximum is found by comparisons, which NaN answers with no: compiled, the later one of two parts wins
then, NaN or not. NumPy's functions would have NaN win.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import interpreter

from .combining import Arrays, Combine, current_layout, describe, is_power_of_two

_Combine = Callable[[Arrays, Arrays], Arrays]


def reduce_in_order(arrays: Arrays, combine: _Combine) -> Arrays:
    """Arrays without their first axis, whose length is a power of two."""
    stretches, warps, lanes, beside = current_layout().split(len(arrays[0]))
    rest = arrays[0].shape[1:]
    parts = [array.reshape(stretches, warps, lanes, beside, *rest) for array in arrays]
    held = [np.moveaxis(part, 3, 1).reshape(stretches * beside, warps, lanes, *rest) for part in parts]
    found = [array[0] for array in held]
    for at in range(1, stretches * beside):
        found = combine(found, [array[at] for array in held])
    found = _reduce_by_halves([np.moveaxis(array, 1, 0) for array in found], combine)
    return _reduce_by_halves(found, combine)


def _reduce_by_halves(arrays: Arrays, combine: _Combine) -> Arrays:
    while len(arrays[0]) > 1:
        half = len(arrays[0]) // 2
        arrays = combine([array[:half] for array in arrays], [array[half:] for array in arrays])
    return [array[0] for array in arrays]


def _pack(reduction: Any, results: Arrays, dtypes: list[Any], rank: int) -> list[Any]:
    """Tensors of what was reduced, with the axes that are kept."""
    if reduction.keep_dims:
        results = [
            array.reshape((1,) * rank) if reduction.axis is None else np.expand_dims(array, reduction.axis)
            for array in results
        ]
    elif reduction.axis is None:
        results = [array.item() for array in results]
    return [reduction.to_tensor(result, dtype) for result, dtype in zip(results, dtypes, strict=True)]


def _with_axis_first(arrays: Arrays, axis: int | None) -> Arrays:
    return [array.reshape(-1) if axis is None else np.moveaxis(array, axis, 0) for array in arrays]


def _reduce_as_compiled(original: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(self: Any, values: Any) -> Any:
        arrays, dtypes = describe(values)
        turned = _with_axis_first(arrays, self.axis)
        if not is_power_of_two(len(turned[0])):
            return original(self, values)
        return _pack(self, reduce_in_order(turned, Combine(self, dtypes)), dtypes, arrays[0].ndim)

    return reduce


def _sum_as_compiled(original: Callable[..., Any]) -> Callable[..., Any]:
    def add_up(self: Any, values: Any) -> Any:
        data = values.handle.data
        if data.dtype.kind != "f" or isinstance(self.axis, tuple):
            return original(self, values)
        (turned,) = _with_axis_first([data], self.axis)
        if not is_power_of_two(len(turned)):
            return original(self, values)
        found = reduce_in_order([turned], lambda left, right: [left[0] + right[0]])
        return _pack(self, found, [values.dtype], data.ndim)[0]

    return add_up


def _find_extreme(is_better: Callable[[Any, Any], Any]) -> _Combine:
    """The better of two values and its position; of equal ones the first."""

    def combine(left: Arrays, right: Arrays) -> Arrays:
        is_left = is_better(left[0], right[0]) | ((left[0] == right[0]) & (left[1] < right[1]))
        return [np.where(is_left, one, other) for one, other in zip(left, right, strict=True)]

    return combine


_GREATER, _LESS = _find_extreme(np.greater), _find_extreme(np.less)


def _find_position_as_compiled(original: Callable[..., Any]) -> Callable[..., Any]:
    def find(self: Any, values: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:
        first = values[0] if isinstance(values, tuple) else values
        data: NDArray[Any] = first.handle.data
        if idx_reduce_op is None or data.dtype.kind != "f" or not np.isnan(data).any():
            return original(self, values, val_reduce_op, idx_reduce_op)
        if isinstance(self.axis, tuple):
            raise ValueError("a position among several axes")
        (turned,) = _with_axis_first([data], self.axis)
        if not is_power_of_two(len(turned)):
            return original(self, values, val_reduce_op, idx_reduce_op)
        places = np.arange(len(turned), dtype=np.int32).reshape(-1, *(1,) * (turned.ndim - 1))
        combine = _GREATER if idx_reduce_op is np.argmax else _LESS
        found = reduce_in_order([turned, np.broadcast_to(places, turned.shape)], combine)
        return tuple(_pack(self, found, [first.dtype, tl.int32], data.ndim))

    return find


def install() -> None:
    """Let this process's interpreter reduce as a compiled kernel does."""
    operations: Any = interpreter.ReduceOps
    operations.generic_reduce = _reduce_as_compiled(operations.generic_reduce)
    operations.sum = _sum_as_compiled(operations.sum)
    operations.min_max = _find_position_as_compiled(operations.min_max)
