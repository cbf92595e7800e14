"""Shadow memory of lanes: which lane of a program has last accessed each element, and when.

Which lanes a thread has depends on the block's shape; the same lane of the same shape is taken for the same thread, and
dimensions of one do not count. So lanes have numbers that differ from shape to shape.
"""

from __future__ import annotations

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from .accesses import Access

_MANY = -1
_LANE_BITS = 21
"""Triton's blocks have at most 2^20 elements."""


@define
class LaneNumbers:
    """Numbers the lanes of blocks."""

    shapes: dict[tuple[int, ...], int] = field(factory=dict)

    def number_shape(self, access: Access) -> int:
        """Return the number of the block's shape."""
        return self.shapes.setdefault(tuple(size for size in access.lanes.shape if size != 1), len(self.shapes))

    def number(self, access: Access) -> NDArray[np.int32]:
        """Return the numbers of the accessing lanes, in the order of the elements."""
        found: NDArray[np.int64] = np.flatnonzero(access.lanes) + (self.number_shape(access) << _LANE_BITS)
        return found.astype(np.int32)


def find_shapes(lanes: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the numbers of the shapes of numbered lanes, and what is none's where several lanes are meant."""
    found: NDArray[np.int32] = lanes >> _LANE_BITS
    return found


@define
class Shadow:
    """Holds when each element was last accessed in one way, and by which lane; 0 is never."""

    times: NDArray[np.int32]
    lanes: NDArray[np.int32]

    @classmethod
    def of(cls, size: int) -> Shadow:
        """Return the shadow of so many elements that nobody has accessed."""
        return cls(times=np.zeros(size, np.int32), lanes=np.zeros(size, np.int32))

    def note(self, elements: NDArray[np.int64], lanes: NDArray[np.int32], time: int, since: int) -> None:
        """Note an access; what several lanes have accessed after the time `since` is no single one's."""
        is_shared = self.is_of_others(elements, lanes, since)
        self.times[elements] = time
        self.lanes[elements] = lanes
        self.lanes[elements[is_shared | (self.lanes[elements] != lanes)]] = _MANY

    def is_of_others(self, elements: NDArray[np.int64], lanes: NDArray[np.int32], since: int) -> NDArray[np.bool_]:
        """Return which elements another lane has accessed after a time than the one that does now."""
        found: NDArray[np.bool_] = (self.times[elements] > since) & (self.lanes[elements] != lanes)
        return found
