"""What a sample of a plan's programs tells about the sizes that are compiled, timed and rewarded.

A backend that cannot run the declared sizes runs a few programs of each launch there. Two questions are answered: are
the elements that they wrote right, and do all programs together, if the others write as much, write the whole result?
The second finds grids and kernels that do less once sizes are large, which no run at small sizes shows.

A few programs of thousands seldom have among them the one in a hundred that is wrong. So many more are run at once
(`harness.sandbox.interpreter.vectorized_scan`), and those whose results are not right are run again one by one, which
decides. Of a kernel that is wrong in one program of n, a scan that covers a share c of N programs misses all with
probability (1 - c)^(N/n): none where it covers all, as it does for a third of a million elements; for one in a hundred,
12% of 3,000: 2%.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from ...core.candidate import Failure
from ...core.outcome import Outcome
from ..tolerance import TOLERANCES, find_scale

FIRST_PROGRAMS = 12
FEW_PROGRAMS = 6
"""For sizes beyond the declared ones, and for the declared ones in another dtype."""
SUSPECTS = 4
"""So many of the programs that a scan points to run one by one."""
SCAN_LANES = 1 << 23
"""What a scan may cost: a quarter of a second, for some three million elements, or a part of a larger launch."""
SUM_LANES = 3 << 24
"""What a scan may cost of several launches, or of one whose programs add up by atomics: a second."""
ADDENDS = 64
"""So many programs that add to one element run, to see what they add up to."""
LEAST_PROGRAMS = 3
"""For what was out of time with more."""
MANY_PROGRAMS = 48
"""Where the first sample has one value alone to compare, or sums of an earlier launch."""
MORE_PROGRAMS = 384
"""Where the first sample leaves a doubt, so many more decide: programs may well write unequal shares."""
ALL_PROGRAMS = 4096
"""Launches of no more run whole before they are refused: one program may write what all have computed."""
_FEW_ELEMENTS = 10_000
_NUM_DEVIATIONS = 4.0
_SLACK = 0.999


@frozen(kw_only=True)
class LaunchCoverage:
    """How much the drawn programs of a launch wrote, one by one; of `num_unknown` further ones nobody knows.

    `written_by_program` counts elements that none had written, and `stored_by_program` all. `new_along` has for each
    axis of the grid the shares of a program's elements that the one before it along the axis did not store to.
    """

    grid: tuple[int, int, int]
    written_by_program: tuple[int, ...]
    num_unknown: int = 0
    stored_by_program: tuple[int, ...] = ()
    new_along: tuple[tuple[float, ...], ...] = ()

    @property
    def num_programs(self) -> int:
        """How many the launch has."""
        return math.prod(self.grid)

    def reach(self) -> float:
        """How many elements all programs write at most, by the sample: its mean, and four standard errors.

        Along an axis that makes no difference to what is stored, all programs store no more together than one of them.
        """
        total, size = self.num_programs, len(self.written_by_program)
        if size >= total:
            return float(sum(self.written_by_program))
        if size == 0:
            return math.inf if self.num_unknown else 0.0
        reach = total * _mean_at_most(self.written_by_program)
        if not self.stored_by_program:
            return reach
        shares = [min(1.0, _mean_at_most(shares)) if shares else 1.0 for shares in self.new_along]
        distinct = math.prod(1.0 + (size - 1) * share for size, share in zip(self.grid, shares, strict=False))
        return min(reach, distinct * _mean_at_most(self.stored_by_program))


def _mean_at_most(values: Sequence[float]) -> float:
    """The mean that a sample allows: its own, and four standard errors."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return float(np.mean(values)) + _NUM_DEVIATIONS * deviation / math.sqrt(len(values))


@frozen(kw_only=True)
class Hints:
    """What a scan of many programs at once suggests; `programs` have written what is not right.

    `is_whole` says that all programs of all launches have run, `is_lacking` that they did and did not write the whole
    result.
    """

    programs: tuple[int, ...] = ()
    is_whole: bool = False
    is_lacking: bool = False
    position: int = -1
    """Where in the flat result one of them wrote."""


def find_hints(
    actual: NDArray[np.generic],
    expected: NDArray[np.generic],
    writers: NDArray[np.int32],
    dtype: str,
    is_whole: bool,
    share: float = 1.0,
) -> Hints:
    """The programs to be run one by one, from one output's values and the programs that wrote them, from 1 on.

    `share` is that of the tolerance which the run is granted.
    """
    written = writers > 0
    is_wrong = written & ~are_right(actual, expected, dtype, share)
    wrong = writers[is_wrong]
    programs = np.unique(wrong[:: 1 + wrong.size // _FEW_ELEMENTS]) - 1
    chosen = programs[np.linspace(0, programs.size - 1, min(SUSPECTS, programs.size)).astype(int)]
    lacks = is_whole and np.count_nonzero(written) < count_needed(actual, expected, written, dtype)
    position = int(np.argmax(is_wrong)) if wrong.size else -1
    return Hints(programs=tuple(int(program) for program in chosen), is_lacking=bool(lacks), position=position)


def are_right(
    actual: NDArray[np.generic], expected: NDArray[np.generic], dtype: str, share: float = 1.0
) -> NDArray[np.bool_]:
    """Which elements are within a share of the tolerance for single errors; where nothing finite is expected, all."""
    tolerance = TOLERANCES.get(dtype)
    if tolerance is None or actual.dtype.kind != "f":
        return np.asarray(actual == expected)
    with np.errstate(all="ignore"):
        wanted, found = expected.astype(np.float64), actual.astype(np.float64)
        limit = share * tolerance.worst_excess
        excess = np.abs(found - wanted) - limit * np.abs(wanted)
        return np.asarray((excess <= limit * find_scale(expected)) | ~np.isfinite(wanted))


@frozen(kw_only=True)
class Coverage:
    """How many elements of the result have to be written, and what the programs that ran wrote, launch by launch."""

    num_needed: int
    launches: tuple[LaunchCoverage, ...]


def count_needed(
    actual: NDArray[np.generic], expected: NDArray[np.generic], written: NDArray[np.bool_], dtype: str
) -> int:
    """Elements that a kernel has to write: all but those that are right without being written.

    Such are the zeros of a zero-filled result of which a kernel fills one triangle.
    """
    rest = ~written
    if actual.dtype.kind == "f":
        rest &= np.isfinite(actual)
    if not rest.any():
        return int(expected.size)
    tolerance = TOLERANCES.get(dtype)
    if tolerance is None:
        is_right = actual[rest] == expected[rest]
    else:
        wanted, found = expected[rest].astype(np.float64), actual[rest].astype(np.float64)
        is_right = np.abs(found - wanted) <= tolerance.worst_excess * (np.abs(wanted) + find_scale(expected))
    return int(expected.size) - int(np.count_nonzero(is_right))


def judge_coverage(coverage: Coverage) -> Failure | None:
    """An objection where all launches together, by their samples, do not write the whole result."""
    is_whole = all(len(launch.written_by_program) >= launch.num_programs for launch in coverage.launches)
    if sum(launch.reach() for launch in coverage.launches) >= (1.0 if is_whole else _SLACK) * coverage.num_needed:
        return None
    total = sum(launch.num_programs for launch in coverage.launches)
    counts = [count for launch in coverage.launches for count in launch.written_by_program]
    message = (
        f"{len(counts)} of {total} programs wrote {sum(counts)} elements; "
        f"all of them would not write the {coverage.num_needed} of the result"
    )
    return Failure(outcome=Outcome.OUTPUT_NOT_WRITTEN, message=message)
