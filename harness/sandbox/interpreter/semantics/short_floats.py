"""Floats of few digits: what float32 does to positions in tensors larger than anybody can run.

Float32 has no odd numbers beyond 2^24, and a tensor may have more elements than that. Where an address goes through a
float, one run at small sizes computes with fewer digits, so that its offsets are to them as those of a large tensor are
to float32's own. Whole numbers alone are rounded: a coordinate between two elements keeps what is behind its point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import interpreter

from .patches import BUILDER, around
from .run_state import current_run

_ARITHMETIC = ("si_to_fp", "ui_to_fp", "fadd", "fsub", "fmul", "fdiv", "fma")


def shorten(values: NDArray[np.float32], num_digits: int) -> NDArray[np.float32]:
    """Round whole numbers to so many binary digits, ties to even."""
    digits, exponents = np.frexp(values)
    rounded = np.ldexp(np.rint(np.ldexp(digits, num_digits)), exponents - num_digits)
    return np.where(np.trunc(values) == values, rounded, values).astype(np.float32)


def _shorten_result(self: Any, *operands: Any, original: Any) -> Any:
    result = original(self, *operands)
    if result.dtype.scalar != tl.float32:
        return result
    return interpreter.TensorHandle(shorten(result.data, current_run().float_digits), result.dtype)


PATCHES = tuple(around(BUILDER, f"create_{name}", _shorten_result) for name in _ARITHMETIC)
"""For the runs that have few digits alone."""
