"""Reductions and scans in the order in which compiled code combines, and what becomes of NaN there.

Triton's interpreter goes from left to right, so a function that is not associative, or not commutative, has a result
here that no GPU gives. In a reduction a thread combines what it holds from the first to the last, the threads of a warp
as a butterfly, and the warps alike; seen on an H200. In a scan (read in the PTX for sm_90) each thread scans its
neighbours, the threads of a warp add up their last ones in rounds, each with that 1, 2, 4, ... lanes before, and the
stretches of the warps follow one after another. How much a thread holds is not known (`run_state.Layout`): a function
that may be used so is right in any order. Sums of floats go the same way.

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

from .patches import around
from .run_state import current_run

Arrays = list[NDArray[Any]]
_Combine = Callable[[Arrays, Arrays], Arrays]


class _OwnFunction:
    """Applies a kernel's own combine function to two parts, each of as many values as there are types."""

    def __init__(self, operation: Any, dtypes: list[Any]) -> None:
        self._operation, self._dtypes, self._is_single = operation, dtypes, False
        self._function = operation.combine_fn.rewrite()

    def __call__(self, left: Arrays, right: Arrays) -> Arrays:
        """Combine all elements of arrays of one shape with those at the same place."""
        left, right = [np.asarray(array) for array in left], [np.asarray(array) for array in right]
        if not left[0].size:
            return left
        if not self._is_single:
            try:
                return self._at_once(left, right)
            except Exception:  # whatever the reason, one at a time it shows again
                self._is_single = True
        results = [array.copy() for array in left]
        for at in np.ndindex(results[0].shape):
            found = self._apply([array[at] for array in left], [array[at] for array in right])
            for result, value in zip(results, found, strict=True):
                result[at] = value.handle.data.item() if hasattr(value, "handle") else value
        return results

    def _apply(self, left: list[Any], right: list[Any]) -> tuple[Any, ...]:
        given = [
            self._operation.to_tensor(value, dtype)
            for side in (left, right)
            for value, dtype in zip(side, self._dtypes, strict=True)
        ]
        found = self._function(*given)
        return tuple(found) if isinstance(found, (tuple, tl.tuple)) else (found,)

    def _at_once(self, left: Arrays, right: Arrays) -> Arrays:
        shape = left[0].shape
        kind: Any = tl.tensor
        asked = {name: getattr(kind, name) for name in ("__bool__", "__index__")}

        def refuse(tensor: Any) -> Any:
            raise TypeError("many values at once are no condition")

        for name in asked:
            setattr(kind, name, refuse)
        try:
            found = self._apply([_as_block(array) for array in left], [_as_block(array) for array in right])
        finally:
            for name, value in asked.items():
                setattr(kind, name, value)
        results = []
        for array, value in zip(left, found, strict=True):
            data = np.asarray(value.handle.data if hasattr(value, "handle") else value).astype(array.dtype)
            results.append(
                (data.reshape(-1)[: array.size] if data.size > 1 else np.full(array.size, data)).reshape(shape)
            )
        return results


def _as_block(array: NDArray[Any]) -> NDArray[Any]:
    """Return the elements in a row, and the first again until there are as many as a block may have."""
    flat = array.reshape(-1)
    missing = (1 << (flat.size - 1).bit_length()) - flat.size
    return np.concatenate([flat, np.repeat(flat[:1], missing)]) if missing else flat


def _describe(values: Any) -> tuple[Arrays, list[Any]]:
    """Return the arrays and the types of the tensors that an operation is given."""
    return [value.handle.data for value in values], [value.dtype for value in values]


def _is_power_of_two(size: int) -> bool:
    """Return whether a GPU has blocks of this size."""
    return size > 0 and size & (size - 1) == 0


def reduce_in_order(arrays: Arrays, combine: _Combine) -> Arrays:
    """Reduce arrays along their first axis, whose length is a power of two, in the order of a compiled kernel."""
    stretches, warps, lanes, beside = current_run().layout.split(len(arrays[0]))
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
    """Return tensors of what was reduced, with the axes that are kept."""
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


def _reduce_as_compiled(self: Any, values: Any, *, original: Any) -> Any:
    arrays, dtypes = _describe(values)
    turned = _with_axis_first(arrays, self.axis)
    if not _is_power_of_two(len(turned[0])):
        return original(self, values)
    return _pack(self, reduce_in_order(turned, _OwnFunction(self, dtypes)), dtypes, arrays[0].ndim)


def _sum_as_compiled(self: Any, values: Any, *, original: Any) -> Any:
    data = values.handle.data
    if data.dtype.kind != "f" or isinstance(self.axis, tuple):
        return original(self, values)
    (turned,) = _with_axis_first([data], self.axis)
    if not _is_power_of_two(len(turned)):
        return original(self, values)
    found = reduce_in_order([turned], lambda left, right: [left[0] + right[0]])
    return _pack(self, found, [values.dtype], data.ndim)[0]


def _find_extreme(is_better: Callable[[Any, Any], Any]) -> _Combine:
    """Return a function that finds the better of two values and its position; of equal ones the first."""

    def combine(left: Arrays, right: Arrays) -> Arrays:
        is_left = is_better(left[0], right[0]) | ((left[0] == right[0]) & (left[1] < right[1]))
        return [np.where(is_left, one, other) for one, other in zip(left, right, strict=True)]

    return combine


_GREATER, _LESS = _find_extreme(np.greater), _find_extreme(np.less)


def _find_position_as_compiled(
    self: Any, values: Any, val_reduce_op: Any, idx_reduce_op: Any = None, *, original: Any
) -> Any:
    first = values[0] if isinstance(values, tuple) else values
    data: NDArray[Any] = first.handle.data
    if idx_reduce_op is None or data.dtype.kind != "f" or not np.isnan(data).any():
        return original(self, values, val_reduce_op, idx_reduce_op)
    if isinstance(self.axis, tuple):
        raise ValueError("a position among several axes")
    (turned,) = _with_axis_first([data], self.axis)
    if not _is_power_of_two(len(turned)):
        return original(self, values, val_reduce_op, idx_reduce_op)
    places = np.arange(len(turned), dtype=np.int32).reshape(-1, *(1,) * (turned.ndim - 1))
    combine = _GREATER if idx_reduce_op is np.argmax else _LESS
    found = reduce_in_order([turned, np.broadcast_to(places, turned.shape)], combine)
    return tuple(_pack(self, found, [first.dtype, tl.int32], data.ndim))


def scan_in_order(arrays: Arrays, combine: _Combine) -> Arrays:
    """Scan arrays along their first axis, a power of two long, in the order of a compiled kernel; shapes are kept."""
    stretches, warps, lanes, beside = current_run().layout.split(len(arrays[0]))
    shape = arrays[0].shape
    # by neighbour, lane, and stretch of a warp
    split = [array.reshape(stretches * warps, lanes, beside, *shape[1:]) for array in arrays]
    held = [np.moveaxis(array, (2, 1), (0, 1)).copy() for array in split]
    for at in range(1, beside):
        _put(held, at, combine(_at(held, at - 1), _at(held, at)))
    lasts = _at(held, beside - 1)
    away = 1
    while away < lanes:
        found = combine([array[:-away] for array in lasts], [array[away:] for array in lasts])
        lasts = [np.concatenate([array[:away], new]) for array, new in zip(lasts, found, strict=True)]
        away *= 2
    before = _add_up_stretches([array[-1] for array in lasts], combine)
    if before is not None:
        spread = [np.broadcast_to(array, (lanes, *array.shape)) for array in before]
        found = combine(spread, [array[:, 1:] for array in lasts])
        lasts = [np.concatenate([array[:, :1], new], axis=1) for array, new in zip(lasts, found, strict=True)]
    for at in range(beside - 1):
        _put(held, at, _continue(_at(held, at), lasts, before, combine))
    _put(held, beside - 1, lasts)
    return [np.moveaxis(array, (0, 1), (2, 1)).reshape(shape) for array in held]


def _at(held: Arrays, at: int) -> Arrays:
    return [array[at] for array in held]


def _put(held: Arrays, at: int, found: Arrays) -> None:
    for array, value in zip(held, found, strict=True):
        array[at] = value


def _add_up_stretches(totals: Arrays, combine: _Combine) -> Arrays | None:
    """Combine all stretches before each, but for the first."""
    if len(totals[0]) == 1:
        return None
    sums = [[array[0] for array in totals]]
    for at in range(1, len(totals[0]) - 1):
        sums.append(combine(sums[-1], [array[at] for array in totals]))
    return [np.stack(column) for column in zip(*sums, strict=True)]


def _continue(own: Arrays, lasts: Arrays, before: Arrays | None, combine: _Combine) -> Arrays:
    """Combine a thread's elements but the last with what the lane before ends with, or the stretch before."""
    results = [array.copy() for array in own]
    found = combine([array[:-1] for array in lasts], [array[1:] for array in own])
    for result, value in zip(results, found, strict=True):
        result[1:] = value
    if before is not None:
        found = combine(before, [array[0, 1:] for array in own])
        for result, value in zip(results, found, strict=True):
            result[0, 1:] = value
    return results


def _scan_as_compiled(self: Any, values: Any, *, original: Any) -> Any:
    arrays, dtypes = _describe(values)
    turned = [np.moveaxis(array, self.axis, 0) for array in arrays]
    if not _is_power_of_two(len(turned[0])):
        return original(self, values)
    found = scan_in_order(turned, _OwnFunction(self, dtypes))
    back = [np.moveaxis(array, 0, self.axis) for array in found]
    return [self.to_tensor(array, dtype) for array, dtype in zip(back, dtypes, strict=True)]


PATCHES = (
    around(interpreter.ReduceOps, "generic_reduce", _reduce_as_compiled),
    around(interpreter.ReduceOps, "sum", _sum_as_compiled),
    around(interpreter.ReduceOps, "min_max", _find_position_as_compiled),
    around(interpreter.ScanOps, "generic_scan", _scan_as_compiled),
)
