"""Reductions by a function of the kernel's own, in the order in which compiled code combines.

Triton's interpreter goes from left to right, so a function that is not associative, or not commutative, has a result
here that no GPU gives. Compiled, the threads of a warp combine as a butterfly, each with the one half as many lanes
away, and the warps alike; seen on an H200. What a thread holds of several elements is combined first, by a layout that
is not known here: a function that may be used so is right in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from triton.runtime import interpreter

_LANES = 32

Arrays = list[NDArray[Any]]


def _combine_halves(reduction: Any, arrays: Arrays, dtypes: list[Any]) -> Arrays:
    """Elements of the first half of the first axis, each combined with the one half as far again."""
    half = len(arrays[0]) // 2
    results = [array[:half].copy() for array in arrays]
    for at in np.ndindex(results[0].shape):
        beyond = (at[0] + half, *at[1:])
        left = [reduction.to_tensor(array[at], dtype) for array, dtype in zip(arrays, dtypes, strict=True)]
        right = [reduction.to_tensor(array[beyond], dtype) for array, dtype in zip(arrays, dtypes, strict=True)]
        found = reduction.combine_fn.fn(*left, *right)
        for result, value in zip(results, found if isinstance(found, tuple) else (found,), strict=True):
            result[at] = value.handle.data.item() if hasattr(value, "handle") else value
    return results


def _reduce(reduction: Any, arrays: Arrays, dtypes: list[Any]) -> Arrays:
    """One element of the first axis, whose length is a power of two."""
    size = len(arrays[0])
    if size > _LANES:
        # the warps' elements beside each other, so that each warp is reduced alike
        arrays = [np.moveaxis(array.reshape(size // _LANES, _LANES, *array.shape[1:]), 1, 0) for array in arrays]
        arrays = [array[0] for array in _reduce(reduction, arrays, dtypes)]
    while len(arrays[0]) > 1:
        arrays = _combine_halves(reduction, arrays, dtypes)
    return arrays


def _reduce_as_compiled(original: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(self: Any, values: Any) -> Any:
        inputs, axis = self.unravel(values, self.axis)
        size = inputs[0].handle.data.shape[axis]
        if size & (size - 1):
            return original(self, values)
        arrays = [np.moveaxis(value.handle.data, axis, 0) for value in inputs]
        dtypes = [value.dtype for value in inputs]
        results = [array[0] for array in _reduce(self, arrays, dtypes)]
        if self.keep_dims:
            rank = len(values[0].handle.data.shape)
            results = [
                array.reshape((1,) * rank) if self.axis is None else np.expand_dims(array, axis) for array in results
            ]
        elif self.axis is None:
            results = [array.item() for array in results]
        return [self.to_tensor(result, dtype) for result, dtype in zip(results, dtypes, strict=True)]

    return reduce


def install() -> None:
    """Let this process's interpreter reduce as a compiled kernel does."""
    operations: Any = interpreter.ReduceOps
    operations.generic_reduce = _reduce_as_compiled(operations.generic_reduce)
