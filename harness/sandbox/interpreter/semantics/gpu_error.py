"""Errors of a GPU's approximate functions, fused products and TF32, drawn in one of the audit's runs.

Of float32, compiled code takes `exp`, `exp2`, `log`, `log2`, `sin`, `cos`, `sqrt`, `rsqrt` and `/` from approximations
that are one or two units in the last place off (the PTX manual says by how much; the PTX for sm_90 which they are);
`tl.sqrt`, `tl.rsqrt` and `tl.exp2` take and give 0 for subnormal numbers. A product that is added to something may be
rounded together with the sum, and `tl.dot` cuts its operands to TF32 unless told otherwise. All of it is far within
what is tolerated, until a comparison makes a branch of it: two ways to one number are equal here, and not there.

So one of the audit's runs draws such errors: a result is off by one unit or none, by its bits and a seed, and what is
exact (a root of a square, a quotient without a rest, the exponential of 0) stays exact, as it does in practice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import interpreter

from .patches import BUILDER, around
from .rounding import flushed
from .run_state import current_run

Array = NDArray[Any]

_TF32_BITS = np.uint32(0xFFFFE000)


def _nudge(values: Array, is_inexact: Array) -> Array:
    """Move inexact results one unit up, one down or not, equal numbers alike."""
    seed = current_run().error_seed or 0
    bits = np.atleast_1d(values).view(np.int32).reshape(values.shape)
    mixed = (bits.astype(np.uint64) + np.uint64(seed % 2**31)) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)
    step = (mixed % np.uint64(3)).astype(np.int32) - 1
    is_normal = np.isfinite(values) & (np.abs(values) > np.float32(2.0**-125))
    moved = np.where(is_inexact & is_normal, bits + step, bits)
    return np.atleast_1d(moved).view(np.float32).reshape(values.shape)


def _is_drawn(*handles: Any) -> bool:
    return current_run().error_seed is not None and all(handle.dtype.scalar == tl.float32 for handle in handles)


def _made(values: Array) -> Any:
    return interpreter.TensorHandle(values, tl.float32)


def _compute(self: Any, value: Any, *, original: Any, exact: Callable[[Array], Array]) -> Any:
    if not _is_drawn(value):
        return original(self, value)
    wide = exact(value.data.astype(np.float64))
    found = wide.astype(np.float32)
    return _made(_nudge(found, found != wide))


def _flush(self: Any, value: Any, *, original: Any) -> Any:
    if value.dtype.scalar != tl.float32:
        return original(self, value)
    return _made(flushed(original(self, _made(flushed(value.data))).data))


def _divide(self: Any, left: Any, right: Any, *, original: Any) -> Any:
    result = original(self, left, right)
    if not _is_drawn(left, right):
        return result
    has_rest = result.data.astype(np.float64) * right.data != left.data
    return _made(_nudge(result.data, has_rest))


def _multiply(self: Any, left: Any, right: Any, *, original: Any) -> Any:
    result = original(self, left, right)
    if _is_drawn(left, right):
        result.factors = left.data, right.data
    return result


def _add(self: Any, left: Any, right: Any, *, original: Any, sign: int) -> Any:
    """Round a product once with the sum (sign 1) or difference (sign -1) that it is added to."""
    if not _is_drawn(left, right):
        return original(self, left, right)
    for product, other, of_product, of_other in ((left, right, 1, sign), (right, left, sign, 1)):
        factors = getattr(product, "factors", None)
        if factors is not None:
            exact = factors[0].astype(np.float64) * factors[1] * of_product
            return _made((exact + other.data.astype(np.float64) * of_other).astype(np.float32))
    return original(self, left, right)


def _cut(handle: Any) -> Any:
    bits = np.ascontiguousarray(handle.data).view(np.uint32)
    return _made((bits & _TF32_BITS).view(np.float32))


def _dot(self: Any, left: Any, right: Any, addend: Any, precision: Any, *rest: Any, original: Any) -> Any:
    if _is_drawn(left, right) and precision == interpreter._ir.INPUT_PRECISION.TF32:
        left, right = _cut(left), _cut(right)
    return original(self, left, right, addend, precision, *rest)


_EXACT: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "sqrt": np.sqrt,
    "rsqrt": lambda values: 1 / np.sqrt(values),
}

PATCHES = (
    *(around(BUILDER, f"create_{name}", _compute, exact=exact) for name, exact in _EXACT.items()),
    *(around(BUILDER, f"create_{name}", _flush) for name in ("exp2", "sqrt", "rsqrt")),
    around(BUILDER, "create_fdiv", _divide),
    around(BUILDER, "create_fmul", _multiply),
    around(BUILDER, "create_fadd", _add, sign=1),
    around(BUILDER, "create_fsub", _add, sign=-1),
    around(BUILDER, "create_dot", _dot),
)
