"""How a block's elements lie in the threads that combine them, and how two parts of a block are combined.

Compiled, a thread holds some elements beside each other, the threads of a warp come one after another, then the warps,
then the next such stretch. How many lie beside each other follows from the loads and stores around, so it is not known
here: by default one, and runs that say so draw it. A function that may combine is right with any number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from attrs import frozen
from numpy.typing import NDArray

LANES = 32

Arrays = list[NDArray[Any]]


@frozen
class Layout:
    """How many neighbours a thread holds, and how many warps there are."""

    beside: int = 1
    warps: int = 4

    def split(self, size: int) -> tuple[int, int, int, int]:
        """Of so many elements (a power of two) the numbers of stretches, warps, lanes and neighbours."""
        beside = min(self.beside, size)
        lanes = min(LANES, size // beside)
        warps = min(self.warps, size // (beside * lanes))
        return size // (beside * lanes * warps), warps, lanes, beside


_layout = [Layout()]


def current_layout() -> Layout:
    """The layout of the run that is being made."""
    return _layout[0]


def lay_out(seed: int | None) -> None:
    """Draw how elements lie until the next call; without a seed, one element for a thread at a time."""
    if seed is None:
        _layout[0] = Layout()
        return
    draw = np.random.default_rng((seed, 1))
    _layout[0] = Layout(beside=int(draw.choice((2, 4, 8))), warps=int(draw.choice((1, 2, 4, 8))))


class Combine:
    """A function of the kernel's own that combines two parts, each of as many values as there are types."""

    def __init__(self, operation: Any, dtypes: list[Any]) -> None:
        self._operation, self._dtypes, self._is_single = operation, dtypes, False
        self._function = operation.combine_fn.rewrite()

    def __call__(self, left: Arrays, right: Arrays) -> Arrays:
        """All elements of arrays of one shape, combined with those at the same place."""
        left, right = [np.asarray(array) for array in left], [np.asarray(array) for array in right]
        if not left[0].size:
            return left
        if not self._is_single:
            try:
                return self._at_once(left, right)
            except Exception:  # whatever the reason, one at a time it shows again
                self._is_single = True
        results = [array.copy() for array in left]
        for at in np.ndindex(results[0].shape):
            found = self._apply([array[at] for array in left], [array[at] for array in right])
            for result, value in zip(results, found, strict=True):
                result[at] = value.handle.data.item() if hasattr(value, "handle") else value
        return results

    def _apply(self, left: list[Any], right: list[Any]) -> tuple[Any, ...]:
        given = [
            self._operation.to_tensor(value, dtype)
            for side in (left, right)
            for value, dtype in zip(side, self._dtypes, strict=True)
        ]
        found = self._function(*given)
        return tuple(found) if isinstance(found, (tuple, tl.tuple)) else (found,)

    def _at_once(self, left: Arrays, right: Arrays) -> Arrays:
        shape = left[0].shape
        kind: Any = tl.tensor
        asked = {name: getattr(kind, name) for name in ("__bool__", "__index__")}

        def refuse(tensor: Any) -> Any:
            raise TypeError("many values at once are no condition")

        for name in asked:
            setattr(kind, name, refuse)
        try:
            found = self._apply([_as_block(array) for array in left], [_as_block(array) for array in right])
        finally:
            for name, value in asked.items():
                setattr(kind, name, value)
        results = []
        for array, value in zip(left, found, strict=True):
            data = np.asarray(value.handle.data if hasattr(value, "handle") else value).astype(array.dtype)
            results.append(
                (data.reshape(-1)[: array.size] if data.size > 1 else np.full(array.size, data)).reshape(shape)
            )
        return results


def _as_block(array: NDArray[Any]) -> NDArray[Any]:
    """The elements in a row, and the first again until there are as many as a block may have."""
    flat = array.reshape(-1)
    missing = (1 << (flat.size - 1).bit_length()) - flat.size
    return np.concatenate([flat, np.repeat(flat[:1], missing)]) if missing else flat


def describe(values: Any) -> tuple[Arrays, list[Any]]:
    """The arrays and the types of the tensors that an operation is given."""
    return [value.handle.data for value in values], [value.dtype for value in values]


def is_power_of_two(size: int) -> bool:
    """Whether a GPU has blocks of this size."""
    return size > 0 and size & (size - 1) == 0
