"""Results of floating-point operations that are rounded once, as a GPU rounds them, and floats as integers.

An operation is done in float64, and what that loses is kept in its last bit, which is made odd ("round to odd"): a
second rounding, to a type that has at least two digits fewer, then gives what one rounding of the exact value would.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def fuse(left: Array, right: Array, addend: Array) -> Array:
    """`left * right + addend`, rounded once."""
    if addend.dtype == np.float64:
        return np.asarray(_fuse_exactly(left, right, addend))
    return fuse_to_odd(left, right, addend).astype(addend.dtype)


def fuse_to_odd(left: Array, right: Array, addend: Array) -> NDArray[np.float64]:
    """The same of narrower types, in float64 and rounded to odd."""
    product = left.astype(np.float64) * right.astype(np.float64)  # exact
    wide = addend.astype(np.float64)
    total = np.asarray(product + wide)
    share = total - product
    rest = (product - (total - share)) + (wide - share)
    rest = np.where(np.isfinite(total), rest, 0.0)
    return _made_odd(total, rest)


def narrow_to_odd(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Numbers of float64 in float32, rounded to odd."""
    nearest = values.astype(np.float32)
    rest = np.where(np.isfinite(nearest), values - nearest.astype(np.float64), 0.0)
    return _made_odd(nearest, rest)


def _made_odd(nearest: Array, rest: Array) -> Array:
    """The neighbours with an odd last bit of what `nearest + rest` stands for; itself where there is no rest."""
    signs = np.where(rest == 0, nearest, rest).astype(nearest.dtype)
    nearest = np.where(nearest == 0, np.copysign(nearest, signs), nearest)
    bits = np.atleast_1d(nearest).view(f"i{nearest.dtype.itemsize}").reshape(nearest.shape)
    # in this order of bits the next one is further from zero
    step = np.where((nearest == 0) | ((rest > 0) == (nearest > 0)), 1, -1).astype(bits.dtype)
    is_even = (rest != 0) & (bits & 1 == 0)
    return np.atleast_1d(np.where(is_even, bits + step, bits)).view(nearest.dtype).reshape(nearest.shape)


def _fuse_one(left: float, right: float, addend: float) -> float:
    left, right, addend = float(left), float(right), float(addend)  # NumPy's would warn
    plain = left * right + addend
    if not (math.isfinite(left) and math.isfinite(right)):
        return plain
    if not math.isfinite(addend):
        return addend
    exact = Fraction(left) * Fraction(right) + Fraction(addend)
    if not exact:
        return plain
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


_fuse_exactly = np.vectorize(_fuse_one, otypes=[np.float64])


def towards_zero(values: NDArray[np.float32]) -> NDArray[np.float16]:
    """Numbers of float32 in float16, rounded towards zero; what is finite stays finite."""
    with np.errstate(over="ignore"):
        nearest = np.asarray(values).astype(np.float16)
    beyond = np.abs(nearest.astype(np.float32)) > np.abs(values)
    bits = np.atleast_1d(nearest).view(np.uint16).reshape(nearest.shape)
    return np.atleast_1d(np.where(beyond, bits - np.uint16(1), bits)).view(np.float16).reshape(nearest.shape)


def flushed(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Numbers of float32 with 0 where they are smaller than the smallest normal one."""
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), values), values)


def to_integers(values: Array, kind: np.dtype[Any]) -> Array:
    """Floats without what is behind the point; the nearest there is beyond the ends, and NaN is 0.

    Of 64 bits NaN is the highest bit alone. To eight bits the way goes by sixteen, and what it is beyond eight is not
    defined.
    """
    wide = np.dtype(f"{kind.kind}2") if kind.itemsize == 1 else kind
    low, high = np.iinfo(wide).min, np.iinfo(wide).max
    values = np.trunc(values)
    above, below, is_nan = values >= float(high), values <= float(low), np.isnan(values)
    inside = np.where(above | below | is_nan, 0, values).astype(wide)
    nan = np.array(1 << 63, np.uint64).astype(kind) if kind.itemsize == 8 else kind.type(0)
    result = np.where(is_nan, nan, np.where(above, wide.type(high), np.where(below, wide.type(low), inside)))
    return result.astype(kind)
