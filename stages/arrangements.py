"""Arranges the values of rows as those of an ordinary draw never lie: one sign and few levels, zeros, other scales.

A loop over more blocks than one carries something from each block to the next. Normal values rarely tell how: the
largest is positive, found once, and about as large in every block.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .transforms import as_rows, draw_for, from_rows

Arrangement = Literal["negative", "rising", "positive", "falling"]
ARRANGEMENTS: tuple[Arrangement, ...] = ("negative", "rising", "positive", "falling")
"""One sign, so that a maximum or minimum that begins at zero is wrong; or the last or the first part far larger."""
_FACTOR = 32.0
"""It takes exponentials of normal values beyond float32's range, and squares and sums of them nowhere near its end."""
_LEVELS, _HEIGHT = 3, 8.0
"""The lowest level is so many times what values are on average: what is lost must show beside the larger parts."""


def arrange(
    values: NDArray[np.float64], axes: tuple[int, ...], kinds: tuple[Arrangement, ...], has_ties: bool
) -> NDArray[np.float64]:
    """Return values of which each row along axes is arranged, by the kinds in turn.

    With ties, rows of one sign have few levels, the largest and the smallest in each block; the others have a part that
    is all zeros.
    """
    if not values.size or not values.ndim:
        return values
    rows, draw = as_rows(values, axes), draw_for(values)
    for number, kind in enumerate(kinds):
        own = rows[number :: len(kinds)]
        if kind in ("negative", "positive"):
            own[...] = (1.0 if kind == "positive" else -1.0) * (_level(own) if has_ties else np.abs(own))
        else:
            _scale_part(own, kind == "rising", has_ties, draw)
    return from_rows(rows, values.shape, axes)


def _level(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return magnitudes on a few levels, which are exact in any dtype."""
    magnitudes = np.abs(rows)
    mean = float(magnitudes.mean()) if rows.size else 0.0
    if mean == 0.0:
        return magnitudes
    unit = 2.0 ** np.floor(np.log2(mean))
    levels: NDArray[np.float64] = _HEIGHT * unit * np.clip(1.0 + np.rint(magnitudes / unit), 1.0, _LEVELS)
    return levels


def _scale_part(rows: NDArray[np.float64], is_rising: bool, has_zeros: bool, draw: np.random.Generator) -> None:
    """Multiply the last part of each row, behind a part of zeros, or the first, before a second half of zeros."""
    length = rows.shape[1]
    start, end = (int(length * (part + draw.random() / 4)) for part in (1 / 8, 5 / 8))
    if is_rising:
        rows[:, end:] *= _FACTOR
    else:
        rows[:, :start] *= _FACTOR
        start, end = length // 2, length
    if has_zeros:
        rows[:, start:end] = 0.0
