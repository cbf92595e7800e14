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
from ...core.run import LaunchSample
from ..tolerance import TOLERANCES, find_scale

FIRST_PROGRAMS = 12
FEW_PROGRAMS = 6
"""For sizes beyond the declared ones, and for the declared ones in another dtype."""
SUSPECTS = 4
"""So many of the programs that a scan points to run one by one."""
SCAN_LANES = 1 << 23
"""What a scan may cost: a quarter of a second, for some three million elements, or a part of a larger launch."""
SUM_LANES = 3 << 24
"""What a scan may cost of several launches, of one whose programs add up, or beyond the declared sizes: a second."""
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
Grid = tuple[int, int, int]


def find_reach(grid: Grid, taken: LaunchSample) -> float:
    """How many elements all programs of a grid write at most, by a sample: its mean, and four standard errors.

    Along an axis that makes no difference to what is stored, all programs store no more together than one of them.
    """
    total, size = math.prod(grid), len(taken.written_by_program)
    if size >= total:
        return float(sum(taken.written_by_program))
    if size == 0:
        return math.inf if taken.num_unknown else 0.0
    reach = total * _mean_at_most(taken.written_by_program)
    if not taken.stored_by_program:
        return reach
    shares = [min(1.0, _mean_at_most(shares)) if shares else 1.0 for shares in taken.new_along]
    distinct = math.prod(1.0 + (size - 1) * share for size, share in zip(grid, shares, strict=False))
    return min(reach, distinct * _mean_at_most(taken.stored_by_program))


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


def judge_coverage(num_needed: int, grids: Sequence[Grid], launches: Sequence[LaunchSample]) -> Failure | None:
    """An objection where all launches together, by the samples of their grids, do not write what has to be written."""
    totals = [math.prod(grid) for grid in grids]
    is_whole = all(len(taken.written_by_program) >= total for total, taken in zip(totals, launches, strict=True))
    reach = sum(map(find_reach, grids, launches))
    if reach >= (1.0 if is_whole else _SLACK) * num_needed:
        return None
    counts = [count for taken in launches for count in taken.written_by_program]
    message = (
        f"{len(counts)} of {sum(totals)} programs wrote {sum(counts)} elements; "
        f"all of them would not write the {num_needed} of the result"
    )
    return Failure(Outcome.OUTPUT_NOT_WRITTEN, message)
