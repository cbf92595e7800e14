"""What a sample of a plan's programs tells about the sizes that are compiled, timed and rewarded.

A backend that cannot run the declared sizes runs a few programs of each launch there. Two questions are answered: are
the elements that they wrote right, and do all programs together, if the others write as much, write the whole result?
The second finds grids and kernels that do less once sizes are large, which no run at small sizes shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from ..core.candidate import Failure
from ..core.outcome import Outcome
from .tolerance import TOLERANCES

FIRST_PROGRAMS = 12
FEW_PROGRAMS = 6
"""For sizes beyond the declared ones, and for the declared ones in another dtype."""
LEAST_PROGRAMS = 3
"""For what was out of time with more."""
MORE_PROGRAMS = 384
"""Where the first sample leaves a doubt, so many more decide: programs may well write unequal shares."""
ALL_PROGRAMS = 4096
"""Launches of no more run whole before they are refused: one program may write what all have computed."""
_NUM_DEVIATIONS = 4.0
_SLACK = 0.999


@frozen(kw_only=True)
class LaunchCoverage:
    """How much the drawn programs of a launch wrote, one by one; of `num_unknown` further ones nobody knows."""

    num_programs: int
    written_by_program: tuple[int, ...]
    num_unknown: int = 0

    def reach(self) -> float:
        """How many elements all programs write at most, by the sample: its mean, and four standard errors."""
        counts: Sequence[int] = self.written_by_program
        total, size = self.num_programs, len(counts)
        if size >= total:
            return float(sum(counts))
        if size == 0:
            return math.inf if self.num_unknown else 0.0
        deviation = float(np.std(counts, ddof=1)) if size > 1 else 0.0
        return total * (float(np.mean(counts)) + _NUM_DEVIATIONS * deviation / math.sqrt(size))


@frozen(kw_only=True)
class Coverage:
    """How many elements of the result have to be written, and what the programs that ran wrote, launch by launch."""

    num_needed: int
    launches: tuple[LaunchCoverage, ...]


def count_needed(
    actual: NDArray[np.generic], expected: NDArray[np.generic], written: NDArray[np.bool_], dtype: str
) -> int:
    """Elements that a kernel has to write: all but those that are right without being written, as in a zero-filled
    result of which a kernel fills one triangle."""
    rest = ~written
    if actual.dtype.kind == "f":
        rest &= np.isfinite(actual)
    if not rest.any():
        return int(expected.size)
    tolerance = TOLERANCES.get(dtype)
    if tolerance is None:
        is_right = actual[rest] == expected[rest]
    else:
        scale = float(np.sqrt(np.mean(np.square(expected, where=np.isfinite(expected), out=np.zeros(expected.shape)))))
        wanted, found = expected[rest].astype(np.float64), actual[rest].astype(np.float64)
        is_right = np.abs(found - wanted) <= tolerance.worst_excess * (np.abs(wanted) + scale)
    return int(expected.size) - int(np.count_nonzero(is_right))


def judge_coverage(coverage: Coverage) -> Failure | None:
    """An objection where all launches together, by their samples, do not write the whole result."""
    if sum(launch.reach() for launch in coverage.launches) >= _SLACK * coverage.num_needed:
        return None
    total = sum(launch.num_programs for launch in coverage.launches)
    counts = [count for launch in coverage.launches for count in launch.written_by_program]
    message = (
        f"{len(counts)} of {total} programs wrote {sum(counts)} elements; "
        f"all of them would not write the {coverage.num_needed} of the result"
    )
    return Failure(outcome=Outcome.OUTPUT_NOT_WRITTEN, message=message)
