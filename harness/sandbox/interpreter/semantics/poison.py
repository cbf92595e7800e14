"""Poison: undefined memory and lanes hold values chosen so that relying on them shows.

On a GPU, memory that nothing has written holds whatever was there, often zeros. So here it holds a mixture: NaN, which
no sum hides (but a maximum does, as it skips NaN), and both extremes, of which a maximum or a minimum meets one;
integers and truth values are mixed alike. What lies outside of a gathered block, and what integer operations leave that
are not defined, is filled likewise, zeros and ones among the latter, as these are what processors often give. Which
lane holds which is drawn anew at every operation, the same way in every process. A single number has only one of these,
which the plan's seed draws.

On a GPU memory is often 0, which a mixture never shows: whoever tells by it that this is no GPU meets zeros in one run.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from triton.runtime import interpreter

from .run_state import current_run

_INTEGER = 2**16 + 1
"""Odd, so that sums of it do not wrap around to 0 soon."""


def make_unwritten(memory: torch.Tensor) -> None:
    """Fill a flat tensor with what a temporary holds before anything writes it; first NaN, where the dtype has one."""
    if current_run().holds_zeros:
        memory.view(torch.uint8).zero_()
        return
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
    """Return numbers near both ends and in between, no two of which cancel each other."""
    return high - 6, low + 3 if low else 0, min(_INTEGER, high - 21)


def make_lanes(kind: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return values for lanes of a Triton type; the number of such operations so far draws which comes first."""
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
    if current_run().holds_zeros:
        choices = np.zeros_like(choices)
    return _mixture(choices, shape, 0)


def make_results(dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return values for the lanes of one operation on integers or truth values that is not defined there."""
    if dtype.kind == "b":
        return _mixture(np.array([True, False]), shape, current_run().seed)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return _mixture(np.array([*_extremes(low, high), 0, -1 if low else high], dtype), shape, current_run().seed)


def make_alternation(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return which lanes get the one of two results that a compiler may give."""
    return _mixture(np.array([True, False]), shape, current_run().seed)


def _mixture(choices: NDArray[Any], shape: tuple[int, ...], seed: int) -> NDArray[Any]:
    run = current_run()
    run.num_poisoned += 1
    first = (run.num_poisoned + seed) * 0x9E3779B1 % 2**32 >> 16
    values: NDArray[Any] = choices[(np.arange(first, first + math.prod(shape)) % len(choices)).reshape(shape)]
    return values
