"""Scans by a function of the kernel's own, in the order in which compiled code combines.

Triton's interpreter goes from left to right. Compiled (read in the PTX for sm_90), each thread scans the neighbours
that it holds; the threads of a warp add up their last ones in rounds, each with that 1, 2, 4, ... lanes before; and
what the stretches of the warps before come to is put before each, the stretches one after another. How many neighbours
a thread holds is drawn (`combining`): only for a function that is associative do all give the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from triton.runtime import interpreter

from .combining import Arrays, Combine, current_layout, describe, is_power_of_two

_Combine = Callable[[Arrays, Arrays], Arrays]


def scan_in_order(arrays: Arrays, combine: _Combine) -> Arrays:
    """Arrays of which each element along the first axis, a power of two long, has those before combined with it."""
    stretches, warps, lanes, beside = current_layout().split(len(arrays[0]))
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
    """What all before each stretch come to, but for the first."""
    if len(totals[0]) == 1:
        return None
    sums = [[array[0] for array in totals]]
    for at in range(1, len(totals[0]) - 1):
        sums.append(combine(sums[-1], [array[at] for array in totals]))
    return [np.stack(column) for column in zip(*sums, strict=True)]


def _continue(own: Arrays, lasts: Arrays, before: Arrays | None, combine: _Combine) -> Arrays:
    """A thread's elements but the last, after what the lane before ends with, or the stretch before."""
    results = [array.copy() for array in own]
    found = combine([array[:-1] for array in lasts], [array[1:] for array in own])
    for result, value in zip(results, found, strict=True):
        result[1:] = value
    if before is not None:
        found = combine(before, [array[0, 1:] for array in own])
        for result, value in zip(results, found, strict=True):
            result[0, 1:] = value
    return results


def _scan_as_compiled(original: Callable[..., Any]) -> Callable[..., Any]:
    def scan(self: Any, values: Any) -> Any:
        arrays, dtypes = describe(values)
        turned = [np.moveaxis(array, self.axis, 0) for array in arrays]
        if not is_power_of_two(len(turned[0])):
            return original(self, values)
        found = scan_in_order(turned, Combine(self, dtypes))
        back = [np.moveaxis(array, 0, self.axis) for array in found]
        return [self.to_tensor(array, dtype) for array, dtype in zip(back, dtypes, strict=True)]

    return scan


def install() -> None:
    """Let this process's interpreter scan as a compiled kernel does."""
    operations: Any = interpreter.ScanOps
    operations.generic_scan = _scan_as_compiled(operations.generic_scan)
