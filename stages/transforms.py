"""Transforms freshly drawn inputs into a variant's: arrays in, arrays of the same shape out.

Whatever is drawn here follows from the values alone, so that the same inputs become the same in every process.
"""

from __future__ import annotations

import math
import zlib
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHOICE_SEED = 1
_LEAST_SORTED = 6
_GLANCE = 1 << 10
_HEIGHT = 100.0
_REMAINDERS, _PARTS = (2, 3, 4, 5, 7, 8, 16, 32), (2, 3, 4, 8)
_NUM_PLACES, _END, _MET_BEFORE = 48, 128, 8.0
_MANTISSA_BITS = {"float32": 23, "float16": 10, "bfloat16": 7, "float8": 3}


def _with_last(values: NDArray[np.float64], axes: tuple[int, ...]) -> tuple[NDArray[np.float64], int]:
    """Return a view with these axes last, or the last where there are none such, and how many elements they have."""
    known = {axis % values.ndim: None for axis in axes if -values.ndim <= axis < values.ndim}
    last = tuple(known) if len(known) == len(axes) and known else (values.ndim - 1,)
    moved = np.moveaxis(values, last, range(values.ndim - len(last), values.ndim))
    return moved, math.prod(values.shape[axis] for axis in last)


def as_rows(values: NDArray[np.float64], axes: tuple[int, ...]) -> NDArray[np.float64]:
    """Return a copy of values as rows along axes."""
    moved, length = _with_last(values, axes)
    return moved.reshape(-1, length).copy()


def from_rows(rows: NDArray[np.float64], shape: tuple[int, ...], axes: tuple[int, ...]) -> NDArray[np.float64]:
    """Return values of which `as_rows` makes these rows."""
    values = np.empty(shape)
    moved, _ = _with_last(values, axes)
    moved[...] = rows.reshape(moved.shape)
    return values


@cache
def find_places(length: int) -> NDArray[np.int64]:
    """Return places in a row in an order in which any few of them lie in as many classes of elements as they can.

    A kernel that leaves elements out leaves out a class: by the remainder of a small number, a part of the row, an end.
    Each place is the one whose classes have been met least, the larger ones counting more: the second has the first
    one's other parity, and the first three have all remainders of three.
    """
    ends, spread = np.arange(min(length, _END)), np.linspace(0, length - 1, min(length, _GLANCE)).astype(np.int64)
    candidates = np.unique(np.concatenate([ends, length - 1 - ends, spread]))
    families = [(candidates % number, 1 / number) for number in _REMAINDERS]
    families += [(candidates * number // length, 1 / number) for number in _PARTS]
    families.append(((candidates == 0) + 2 * (candidates == length - 1), 1 / 8))
    weights = [np.full(int(classes.max()) + 1, weight) for classes, weight in families]
    found = []
    for _ in range(_NUM_PLACES):
        gains = sum(weight[classes] for (classes, _), weight in zip(families, weights, strict=True))
        best = int(np.argmax(gains))
        found.append(candidates[best])
        for (classes, _), weight in zip(families, weights, strict=True):
            weight[classes[best]] /= _MET_BEFORE
    return np.array(found)


def raise_places(values: NDArray[np.float64], axes: tuple[int, ...], height: float, turn: int) -> NDArray[np.float64]:
    """Return values with one element of each row far above the others, in the places that `find_places` finds.

    Few rows meet more of these in another turn, of three.
    """
    if not values.size or not values.ndim:
        return values
    rows = as_rows(values, axes)
    number, places = np.arange(len(rows)), find_places(rows.shape[1])
    rows[number, places[(3 * number + turn) % len(places)]] = rows.max(axis=1) + height
    return from_rows(rows, values.shape, axes)


def choose_places(size: int, step: int, parity: int) -> NDArray[np.int64]:
    """Return a drawn place of every `step` neighbours.

    The parity is that of all places, so that none is chosen with either, but for one that is left over.
    """
    starts = np.arange(0, size, step)
    room = np.minimum(step, size - starts)
    drawn = (np.random.default_rng(CHOICE_SEED).random(len(starts)) * room).astype(np.int64)
    places: NDArray[np.int64] = starts + np.minimum(drawn - drawn % 2 + parity, room - 1)
    return places


def make_extreme(values: NDArray[np.float64], parity: int) -> NDArray[np.float64]:
    """Return values with a few far above or far below all, in turn: whatever a result follows from, it follows.

    They lie in even places of the first half, or in odd ones of the second: of large values so few that most blocks
    have one at the most, which a kernel that knows a block again by a part of it overlooks.
    """
    step = max(min(32, max(2, values.size // 4)), values.size // 128)
    chosen = choose_places(values.size, step, parity)
    chosen = chosen[(chosen >= values.size // 2) == bool(parity)]
    height = 4.0 * np.max(np.abs(values), initial=0.0)
    changed = values.copy()
    changed.reshape(-1)[chosen] = np.where(np.arange(chosen.size) % 2, -height, height)
    return changed


def spread_rows(values: NDArray[np.float64], axes: tuple[int, ...]) -> NDArray[np.float64]:
    """Return positive values, each row's largest at its start and its smallest at its end; odd rows the other way."""
    if not values.size or not values.ndim:
        return values
    rows = as_rows(values, axes)
    smallest, largest = 0.1 * rows.min(axis=1), 2.0 * rows.max() - rows[:, 0] / 4
    is_odd = np.arange(len(rows)) % 2 == 1
    rows[:, -1] = np.where(is_odd, largest, smallest)
    rows[:, 0] = np.where(is_odd, smallest, largest) if rows.shape[1] > 1 else largest
    return from_rows(rows, values.shape, axes)


def change_rows(
    values: NDArray[np.float64], scale: float, axes: tuple[int, ...], has_peaks: bool
) -> NDArray[np.float64]:
    """Return values with every second row multiplied, the first among them, and the others' extremes at their ends.

    With peaks these others are multiplied, and the rest lie about a hundred, where exponentials overflow. In an
    exponential one element of them is as much as all others of its row, each of which is nothing beside it. In the last
    of every four rows, which is not multiplied, one leaves nothing else.
    """
    if not values.size or not values.ndim:
        return values
    rows = as_rows(values, axes)
    if has_peaks:
        peaked = rows[::2]
        largest = peaked.max(axis=1, keepdims=True)
        number, places = np.arange(len(peaked)), find_places(rows.shape[1])
        peaked[number, places[number % len(places)]] = largest[:, 0] + np.log(np.exp(peaked - largest).sum(axis=1))
        peaked += _HEIGHT
        rows[1::4] *= scale
        # by no more than makes an exponential infinite, as one scale of errors is all rows'
        rows[3::4] = raise_places(rows[3::4], (), 1.5 * _HEIGHT, turn=1)
    else:
        rows[::2] *= scale
        others = rows[1::2]
        largest, smallest = others.max(axis=1), others.min(axis=1)
        largest *= np.where(largest > 0.0, 2.0, 0.5)
        smallest *= np.where(smallest < 0.0, 2.0, 0.5)
        is_odd = np.arange(len(others)) % 2 == 1
        others[:, 0], others[:, -1] = np.where(is_odd, smallest, largest), np.where(is_odd, largest, smallest)
    return from_rows(rows, values.shape, axes)


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


def is_sorted(values: NDArray[Any], least: int = _LEAST_SORTED) -> bool:
    """Return whether rows rise from start to end, as the edges of bins do: not constant, nor, being long, by chance."""
    if values.ndim == 0 or not values.size or values.shape[-1] < least:
        return False
    # most are not, which their beginning shows
    if np.any(np.diff(values[(0,) * (values.ndim - 1)][:_GLANCE]) < 0):
        return False
    steps = np.diff(values)
    return bool(np.all(steps >= 0) and np.any(steps > 0))


def mix(values: NDArray[Any], least: int) -> NDArray[Any]:
    """Return a mask with both kinds in each row, or integers from `least` to what they were, each a row's end.

    The first half of every fourth row is off, as the first block that a row is read by; with a `least` of 0 all of
    another fourth.
    """
    if not is_mask(values):
        return values
    draw = draw_for(values)
    if values.dtype.kind == "i":
        return draw.integers(least, np.max(values), values.shape, endpoint=True).astype(values.dtype)
    mixed = draw.random(values.shape) < 0.5
    rows = mixed.reshape(-1, values.shape[-1] if values.ndim else 1)
    rows[:, 0] = True
    rows[1::4, : rows.shape[1] // 2] = False
    rows[1::4, -1] = True
    if not least:
        rows[::4] = False
    return mixed


def repeat(values: NDArray[Any], parity: int | None = None) -> NDArray[Any]:
    """Return integers of which the odd ones occur no more, at places of this parity if one is given.

    As they were, where each occurs once, as a position may.
    """
    if np.unique(values).size == values.size:
        return values
    is_meant = True if parity is None else np.arange(values.size).reshape(values.shape) % 2 == parity
    changed: NDArray[Any] = np.where(is_meant, values - values % 2, values)
    return changed


def tie(values: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Return values on a few levels; the first slices of the first dimension and the last of the second are all zeros.

    Zeros have either sign, in turn there: they are equal, and only their bits differ.
    """
    tied = np.rint(values / step) * step
    if tied.ndim > 1:
        num_first, num_last = (min(2, size - 1) for size in tied.shape[:2])
        first, last = tied[:num_first], tied[:, tied.shape[1] - num_last :]
        first[...] = _alternating_zeros(first.shape)
        last[...] = _alternating_zeros(last.shape)
    return tied


def _alternating_zeros(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return zeros of which neighbours along each axis have other signs, the first one's negative."""
    return np.asarray(np.copysign(0.0, sum(np.indices(shape, sparse=True)) % 2 - 0.5))


def round_values(values: NDArray[np.float64], dtype: str) -> NDArray[np.float64]:
    """Return values rounded to `dtype`'s number of significant bits, to nearest even; the exponent's range is kept."""
    mantissa, exponent = np.frexp(values)
    steps = 2.0 ** (_MANTISSA_BITS[dtype] + 1)
    # numpy makes scalars of what has no dimension
    return np.asarray(np.ldexp(np.rint(mantissa * steps) / steps, exponent))
