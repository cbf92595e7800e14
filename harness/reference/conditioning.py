"""How exact each single element of a result has to be, by how the reference answers to noise.

One scale for a whole tensor lets anything pass beside values a million times larger. An element's own scale says more:
its value, and how much it moves where inputs and parameters move in their last digits, each by its own share. A right
kernel's rounding moves an element by no more than that, as sums that cancel and functions near a zero have it; what it
sets to zero, leaves out or lets cancel moves the element by all of its value. So an element is compared within the
tolerance of its value and its movement together (mixed forward and backward error, Higham, "Accuracy and Stability of
Numerical Algorithms", 1.5). Where the reference in its own dtype is not well within that, nobody is asked to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

NUM_DRAWS = 3
_STEP = 2.0**-20
_SHARE_OF_REFERENCE = 3e-5
"""The largest error of the reference itself, of an element's scale: far below any tolerance."""


def move(value: Any, generator: torch.Generator) -> Any:
    """Return a floating tensor in float64, each element moved up or down by about a millionth; the rest as it is."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    draw = torch.rand(value.shape, generator=generator, dtype=torch.float64) - 0.5
    return value.double() * (1.0 + _STEP * (torch.sign(draw) + 2.0 * draw))


def find_element_scales(
    expected: NDArray[np.generic], moved: Sequence[NDArray[np.generic]], own: NDArray[np.generic]
) -> NDArray[np.float64] | None:
    """Return each element's scale, infinite where it is not to be judged by itself; None for integers.

    `moved` are the results on moved inputs, and `own` is that of the reference in its own dtype; all of one shape.
    """
    if expected.dtype.kind != "f":
        return None
    with np.errstate(all="ignore"):
        wanted = expected.astype(np.float64)
        square = sum(((each.astype(np.float64) - wanted) / _STEP) ** 2 for each in moved) / max(1, len(moved))
        scale = np.abs(wanted) + np.sqrt(square)
        is_exact = np.abs(own.astype(np.float64) - wanted) <= _SHARE_OF_REFERENCE * scale
        found: NDArray[np.float64] = np.where(np.isfinite(scale) & is_exact, scale, np.inf)
    return found


def find_range(
    expected: NDArray[np.generic], moved: Sequence[NDArray[np.generic]], own: NDArray[np.generic]
) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Return the least and the largest value of each integer element, as the last digits of the inputs may decide."""
    low = high = expected
    for each in (*moved, own):
        low, high = np.minimum(low, each), np.maximum(high, each)
    return low, high
