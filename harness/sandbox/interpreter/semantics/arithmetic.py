"""Integers, truth values and remainders as a GPU computes them, for Triton's interpreter.

- `+` and `-` of truth values are those of a one-bit number: exclusive or.
- Where the result of an integer operation is not defined (a division by zero, the lowest number by -1, a shift by as
  many bits as there are or more), the compiler may assume that it does not happen. Lanes hold a mixture then, as those
  of a masked load do, so that a result that is used shows, and one that is masked away does no harm.
- `%` of floats is `x - trunc(x / y) * y`, rounded once after the division, and off by `y` where the division rounds
  across a whole number. Of constants the compiler computes the exact remainder. Where the two differ, every other lane
  has the one and the rest the other.
- `tl.umulhi` multiplies what the bits stand for without a sign, whatever type they have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from triton.runtime import interpreter

from . import poison
from .patches import BUILDER, around, replace

Array = NDArray[Any]


def _exclusive_or_of_truth(self: Any, left: Any, right: Any, *, original: Any) -> Any:
    if left.data.dtype == np.bool_:
        return self.binary_op(left, right, np.bitwise_xor)
    return original(self, left, right)


def _as_numbers(array: Array) -> Array:
    return array.view(np.uint8) if array.dtype == np.bool_ else array


def _where_defined(
    compute: Callable[[Array, Array], Array], find_undefined: Callable[[Array, Array, int], Array], stand_in: int
) -> Callable[[Array, Array], Array]:
    """Return an operation whose undefined lanes hold a mixture; they are computed with `stand_in` on the right."""

    def operate(left: Array, right: Array) -> Array:
        value, other = _as_numbers(left), _as_numbers(right)
        is_undefined = find_undefined(value, other, 1 if left.dtype == np.bool_ else 8 * left.itemsize)
        if not is_undefined.any():
            return compute(value, other).astype(left.dtype, copy=False)
        found = compute(value, np.where(is_undefined, other.dtype.type(stand_in), other))
        return np.where(
            is_undefined, poison.make_results(left.dtype, found.shape), found.astype(left.dtype, copy=False)
        )

    return operate


def _has_no_quotient(dividend: Array, divisor: Array, _: int) -> Array:
    is_undefined: Array = divisor == 0
    if dividend.dtype.kind == "i":
        is_undefined = is_undefined | ((dividend == np.iinfo(dividend.dtype).min) & (divisor == -1))
    return is_undefined


def _dividing(compute: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return _where_defined(compute, _has_no_quotient, 1)


def _shifting(compute: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return _where_defined(compute, lambda _, distance, width: (distance < 0) | (distance >= width), 0)


remainder = _dividing(np.fmod)
"""Of integers, with the sign of the dividend."""
quotient = _dividing(lambda left, right: (left - np.fmod(left, right)) // right)
"""Of integers, towards zero."""
shifted_left, shifted_right = _shifting(np.left_shift), _shifting(np.right_shift)
"""The sign is kept to the right where the type has one."""


def _product_and_rest(left: Array, right: Array) -> tuple[Array, Array]:
    """Return a product of float64 numbers, rounded, and what the rounding took away."""
    product = left * right

    def halves(value: Array) -> tuple[Array, Array]:
        scaled = value * 134217729.0  # 2^27 + 1: both halves have so few digits that their products are exact
        high = scaled - (scaled - value)
        return high, value - high

    (a, b), (c, d) = halves(left), halves(right)
    rest = b * d - (((product - a * c) - b * c) - a * d)
    return product, np.where(np.isfinite(rest), rest, 0.0)


def float_remainder(left: Array, right: Array) -> Array:
    """`left % right` of float32 or float64, as instructions for it compute it."""
    with np.errstate(all="ignore"):
        whole = np.trunc(left / right)
        if left.dtype == np.float32:
            found = (left.astype(np.float64) - whole.astype(np.float64) * right).astype(np.float32)
        else:
            product, rest = _product_and_rest(whole, right)
            found = (left - product) - rest
        return np.where(np.isinf(right), left, found)


def _either_remainder(left: Array, right: Array) -> Array:
    found = float_remainder(left, right)
    with np.errstate(all="ignore"):
        exact = np.fmod(left, right)
    differs = (found != exact) & ~(np.isnan(found) & np.isnan(exact))
    if not differs.any():
        return found
    return np.where(differs & poison.make_alternation(found.shape), exact, found)


def high_product(left: Array, right: Array) -> Array:
    """Return the upper half of the bits of a product of two numbers without a sign, in the type of the first."""
    unsigned = np.dtype(f"u{left.itemsize}")
    a, b = left.astype(unsigned).astype(np.uint64), right.astype(unsigned).astype(np.uint64)
    if unsigned.itemsize < 8:
        high = (a * b) >> np.uint64(8 * unsigned.itemsize)
        return high.astype(unsigned).astype(left.dtype)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    lowest = (a & low) * (b & low)
    middle = (a >> half) * (b & low) + (lowest >> half)
    other = (a & low) * (b >> half) + (middle & low)
    highest: Array = (a >> half) * (b >> half) + (middle >> half) + (other >> half)
    return highest.astype(left.dtype)


def _as_operation(compute: Callable[[Array, Array], Array]) -> Any:
    return lambda self, left, right: interpreter.TensorHandle(compute(left.data, right.data), left.dtype.scalar)


_COMPUTED = {
    **dict.fromkeys(("sdiv", "udiv", "idiv"), quotient),
    **dict.fromkeys(("srem", "urem"), remainder),
    "shl": shifted_left,
    **dict.fromkeys(("ashr", "lshr"), shifted_right),
    "frem": _either_remainder,
    "umulhi": high_product,
}
PATCHES = (
    *(around(BUILDER, f"create_{name}", _exclusive_or_of_truth) for name in ("add", "sub")),
    *(replace(BUILDER, f"create_{name}", _as_operation(compute)) for name, compute in _COMPUTED.items()),
)
