"""Transforms freshly drawn inputs into a variant's: arrays in, arrays of the same shape out.

Whatever is drawn here follows from the values alone, so that the same inputs become the same in every process.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHOICE_SEED = 1
_LEAST_SORTED = 6
_GLANCE = 1 << 10
_HEIGHT = 100.0
_MANTISSA_BITS = {"float32": 23, "float16": 10, "bfloat16": 7, "float8": 3}


def spread_rows(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return positive values, each row's largest at its start and its smallest at its end; odd rows the other way."""
    if not values.size or not values.ndim:
        return values
    rows = values.reshape(-1, values.shape[-1]).copy()
    smallest, largest = 0.1 * rows.min(axis=1), 2.0 * rows.max() - rows[:, 0] / 4
    is_odd = np.arange(len(rows)) % 2 == 1
    rows[:, -1] = np.where(is_odd, largest, smallest)
    rows[:, 0] = np.where(is_odd, smallest, largest) if rows.shape[1] > 1 else largest
    return rows.reshape(values.shape)


def change_rows(values: NDArray[np.float64], scale: float, has_peaks: bool) -> NDArray[np.float64]:
    """Return values with every second row multiplied, the first among them; with peaks, every other one.

    With peaks the rest lie about a hundred, where exponentials overflow. In an exponential an element at one end is as
    much as all others of its row, each of which is nothing beside it.
    """
    if not values.size or not values.ndim:
        return values
    rows = values.reshape(-1, values.shape[-1]).copy()
    rows[1 if has_peaks else 0 :: 2] *= scale
    if has_peaks:
        largest = rows[::2].max(axis=1, keepdims=True)
        peaks = largest[:, 0] + np.log(np.exp(rows[::2] - largest).sum(axis=1))
        rows[::4, 0], rows[2::4, -1] = peaks[::2], peaks[1::2]
        rows[::2] += _HEIGHT
    return rows.reshape(values.shape)


def spread_magnitudes(values: NDArray[np.float64], spread: int) -> NDArray[np.float64]:
    """Return values times powers of two, evenly drawn, and some zeros of either sign.

    Equal shapes have zeros at the same places. Every second row has one factor; half of these are negative and half
    positive.
    """
    is_zero = np.random.default_rng(CHOICE_SEED).random(values.shape) < 1 / 64
    draw = draw_for(values)
    factors = np.exp2(draw.uniform(-spread, spread, values.shape))
    if values.ndim > 1:
        values = values.copy()
        values[1::4] = -np.abs(values[1::4])
        values[3::4] = np.abs(values[3::4])
        factors[1::2] = factors[1::2, ..., :1]
    return np.where(is_zero, 0.0 * values, values * factors)


def draw_for(values: NDArray[Any]) -> np.random.Generator:
    """Return a generator of its own for each input, so that operands do not always differ by the same."""
    return np.random.default_rng([CHOICE_SEED, zlib.crc32(values.tobytes())])


def is_mask(values: NDArray[Any]) -> bool:
    """Return whether values are flags, or one positive integer again and again, that says nothing of the others."""
    if not values.size or values.dtype.kind not in "bi":
        return False
    return values.dtype.kind == "b" or bool(values.flat[0] > 0 and np.all(values == values.flat[0]))


def is_sorted(values: NDArray[Any]) -> bool:
    """Return whether rows rise from start to end, as the edges of bins do: not by chance, nor constant."""
    if values.ndim == 0 or not values.size or values.shape[-1] < _LEAST_SORTED:
        return False
    # most are not, which their beginning shows
    if np.any(np.diff(values[(0,) * (values.ndim - 1)][:_GLANCE]) < 0):
        return False
    steps = np.diff(values)
    return bool(np.all(steps >= 0) and np.any(steps > 0))


def mix(values: NDArray[Any], least: int) -> NDArray[Any]:
    """Return a mask with both kinds in each row, or integers from `least` to what they were, each a row's end.

    With a `least` of 0 all flags of every fourth row are off.
    """
    if not is_mask(values):
        return values
    draw = draw_for(values)
    if values.dtype.kind == "i":
        return draw.integers(least, np.max(values), values.shape, endpoint=True).astype(values.dtype)
    mixed = draw.random(values.shape) < 0.5
    rows = mixed.reshape(-1, values.shape[-1] if values.ndim else 1)
    rows[:, 0] = True
    if not least:
        rows[::4] = False
    return mixed


def repeat(values: NDArray[Any]) -> NDArray[Any]:
    """Return integers of which the odd ones occur no more; as they were, where each occurs once, as a position may."""
    return values if np.unique(values).size == values.size else values - values % 2


def tie(values: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Return values on a few levels, the first slice of the first dimension and the last of the second all zeros.

    Other zeros have either sign: they are equal, and only their bits differ.
    """
    tied = np.rint(values / step) * step
    if tied.ndim > 1:
        if tied.shape[0] > 1:
            tied[0] = 0.0
        if tied.shape[1] > 1:
            tied[:, -1] = 0.0
    return tied


def round_values(values: NDArray[np.float64], dtype: str) -> NDArray[np.float64]:
    """Return values rounded to `dtype`'s number of significant bits, to nearest even; the exponent's range is kept."""
    mantissa, exponent = np.frexp(values)
    steps = 2.0 ** (_MANTISSA_BITS[dtype] + 1)
    # numpy makes scalars of what has no dimension
    return np.asarray(np.ldexp(np.rint(mantissa * steps) / steps, exponent))
