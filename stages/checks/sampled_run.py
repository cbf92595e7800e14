"""How many of a plan's programs a sample runs, what it shows, and when it is settled.

A small sample comes first, and a scan of many programs beside it. What leaves a doubt is asked with more programs, and
where they are few enough with all: a refusal by a few programs would be one of what the others may have written. The
decisions are here; whoever runs the samples drives `settle`.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from enum import Enum, auto

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from ...core.candidate import Failure, RunReport, Variant
from ...core.outcome import Outcome
from ...core.run import LaunchSample
from ..judge_run import judge_run
from ..tolerance import IntegerRange, compare
from .declared_run import (
    ALL_PROGRAMS,
    FEW_PROGRAMS,
    FIRST_PROGRAMS,
    LEAST_PROGRAMS,
    MANY_PROGRAMS,
    MORE_PROGRAMS,
    SUSPECTS,
    Grid,
    Hints,
    are_right,
    count_needed,
    find_hints,
    judge_coverage,
)

_MOST_WORK = 2 << 30
_MOST_WORK_OF_SUSPECTS = 3 << 30
"""All programs run where the sample says that they do no more work (`RunResult.work`: 2**28 take about a second); more
where a scan says that something is wrong. Seconds would make a verdict depend on what else the machine does."""
_MOST_WORK_UNSCANNED = 1 << 30
"""As many programs run as go into it, where no scan looks at all of them."""
_CUT_OFF = (Outcome.CRASHED, Outcome.MEMORY_LIMIT)
"""Other ends of a run of all programs than being out of time that need not be the fault of what was already found."""


@frozen(kw_only=True)
class Look:
    """The findings of a sample: a report, whether all programs would tell more, and the work that each does."""

    report: RunReport
    is_doubtful: bool = False
    work_each: float = 0.0
    has_sums: bool = False
    """Something was not compared, as programs that did not run have to do with it."""
    overlaps: bool = False
    """Programs wrote what others had written, so that how much each writes does not add up."""
    is_uniform: bool = False
    """One value is expected wherever something was compared, as a ReLU's zeros, and others elsewhere."""

    @property
    def outcome(self) -> Outcome | None:
        """Return how the sample failed before anything was compared, or None."""
        return None if self.report.failure is None else self.report.failure.outcome

    @property
    def is_wrong(self) -> bool:
        """Return whether the report objects to the candidate."""
        return judge_run(self.report) is not None


@frozen(kw_only=True)
class Take:
    """A sample that is wanted next: so many drawn programs of each launch, and `programs` by their numbers.

    With `follows_whole_launches`, all launches but the last run whole. `is_patient`: they may take long.
    """

    num_programs: int
    programs: tuple[int, ...] = ()
    follows_whole_launches: bool = False
    is_patient: bool = False


class Question(Enum):
    """What samples leave open that a scan of all programs can answer."""

    SUM = auto()
    """Whether programs add up to the right value."""
    REST = auto()
    """Whether all programs together leave elements unwritten."""


@frozen(kw_only=True)
class Settled:
    """The last look, and the question that it leaves open."""

    look: Look
    question: Question | None = None


def settle(
    first: Look | None, hints: Hints | None, num_programs: Sequence[int], is_declared: bool, may_wait: bool
) -> Generator[Take, Look, Settled]:
    """Decide which samples to take, one after the other, and return the one that counts.

    `first` is the small sample, None where its child ended for reasons that say nothing about the candidate; `hints`
    are the scan's, None where it could not be read. `num_programs` counts those of each launch. `may_wait`: programs
    have loops without a bound, in which one may wait for another.
    """
    if first is None or (hints is None and is_declared):
        look = yield Take(num_programs=FIRST_PROGRAMS if is_declared else FEW_PROGRAMS)
    elif hints is not None and hints.programs and len(num_programs) == 1:
        look = yield Take(num_programs=FEW_PROGRAMS, programs=hints.programs)
    else:
        look = first
    is_unscanned = hints is None
    hints = hints or Hints()
    if look.outcome is Outcome.TIMEOUT:
        # a row of many elements, one after the other, takes its time; who waits for another program would use it up
        look = yield Take(num_programs=LEAST_PROGRAMS, is_patient=is_declared and not may_wait)
        if look.outcome is Outcome.TIMEOUT and not (is_declared or may_wait):
            # sizes that nobody declared are no reason to refuse what takes long there; more would be out of time again
            return Settled(look=(yield Take(num_programs=1, is_patient=True)))
    is_exhausted = False
    if look.outcome is Outcome.OUTPUT_NOT_WRITTEN:
        more = yield Take(num_programs=MORE_PROGRAMS)
        # where more programs only take too long, what the first ones did not write still stands
        is_too_much = more.outcome is Outcome.TIMEOUT and not may_wait
        is_exhausted = is_too_much or max(num_programs) <= MORE_PROGRAMS
        look = look if is_too_much else more
    if look.is_uniform and look.work_each * MANY_PROGRAMS <= _MOST_WORK_UNSCANNED:
        # what is wrong may be right of such elements alone
        many = yield Take(num_programs=MANY_PROGRAMS)
        look = look if many.outcome in (Outcome.TIMEOUT, *_CUT_OFF) else many
    is_chain = is_declared and len(num_programs) > 1
    found_nothing = hints.is_whole and not (hints.programs or hints.is_lacking)
    is_clear = is_chain and found_nothing and look.outcome is None and not (look.is_wrong or look.overlaps)
    if is_clear:
        # a scan of all programs found nothing: some of the last launch's behind all others tell as much as all would
        after = yield Take(num_programs=MANY_PROGRAMS, follows_whole_launches=True)
        look = look if after.outcome is not None else after
        if after.outcome is None and not (after.is_wrong or after.has_sums or after.overlaps):
            return Settled(look=look)
    is_wrong, before = look.is_wrong, look
    if not is_exhausted and (is_wrong or is_declared):
        look = yield from _take_all(look, hints, num_programs, may_wait)
        if look is not before:  # what a scan says of all programs has been looked at
            hints = evolve(hints, is_lacking=False)
        if is_unscanned and is_declared and not is_wrong and not look.is_wrong:
            look = yield from _take_many(look, num_programs)
    if len(num_programs) > 1 and not is_clear and look.has_sums and not look.is_wrong:
        # what an earlier launch adds up is known once all its programs have run, if only together
        after = yield Take(num_programs=MANY_PROGRAMS, programs=hints.programs, follows_whole_launches=True)
        look = look if after.outcome is not None else after
    can_ask = (is_declared or hints.is_lacking) and not is_wrong and len(num_programs) == 1
    return Settled(look=look, question=_find_question(look, hints) if can_ask else None)


def _take_all(look: Look, hints: Hints, num_programs: Sequence[int], may_wait: bool) -> Generator[Take, Look, Look]:
    """Have all programs run where that may tell more and takes no longer than it may."""
    is_wrong, total = look.is_wrong, sum(num_programs)
    is_suspect = not is_wrong and (bool(hints.programs) or hints.is_lacking)
    is_stuck = look.outcome is Outcome.TIMEOUT and not may_wait
    if not (look.is_doubtful or is_suspect) or is_stuck or total > ALL_PROGRAMS:
        return look
    most_work = _MOST_WORK_OF_SUSPECTS if is_suspect else _MOST_WORK
    if look.outcome is None and look.work_each * total > most_work:
        return look
    whole = yield Take(num_programs=max(num_programs))
    # what did not come to its end says nothing that would make an objection better or worse
    is_cut_off = whole.outcome is Outcome.TIMEOUT or (is_wrong and whole.outcome in _CUT_OFF)
    return look if is_cut_off else whole


def _take_many(look: Look, num_programs: Sequence[int]) -> Generator[Take, Look, Look]:
    """Have as many programs run as the work allows, as one in a hundred may be wrong.

    A small sample counts the ends of its grid to its few programs, so a larger one may show that more can be run.
    """
    most, taken = min(ALL_PROGRAMS, max(num_programs)), 2 * FIRST_PROGRAMS
    while taken < most and not look.is_wrong:
        affordable = int(_MOST_WORK_UNSCANNED / max(look.work_each, 1.0)) // len(num_programs)
        if affordable < 2 * taken and affordable < most:
            break
        taken = min(affordable, most)
        many = yield Take(num_programs=taken)
        if many.outcome in (Outcome.TIMEOUT, *_CUT_OFF):
            break
        look = many
    return look


def _find_question(look: Look, hints: Hints) -> Question | None:
    if look.has_sums:
        return Question.SUM
    return Question.REST if look.overlaps or hints.is_lacking else None


@frozen(kw_only=True, eq=False)
class SampledOutput:
    """One returned tensor: its values, which programs or whether any wrote each, and what is expected; all one shape.

    `tainted` elements depend on programs that did not run. A scan has in `written` the program that wrote an element,
    from 1 on, or 0. `least_scale` is as in `tolerance.compare`.
    """

    actual: NDArray[np.generic]
    written: NDArray[np.bool_] | NDArray[np.int32]
    expected: NDArray[np.generic]
    dtype: str
    expected_dtype: str
    tainted: NDArray[np.bool_] | None = None
    share_of_tolerance: float = 1.0
    least_scale: float = 0.0
    integer_range: IntegerRange | None = None


def judge_sample(
    variant: Variant, outputs: Sequence[SampledOutput], grids: Sequence[Grid], sample: Sequence[LaunchSample], work: int
) -> Look:
    """Compare what a sample's programs wrote, and ask whether all of them would write the whole result."""
    num_needed, num_tainted, is_uniform, comparisons = 0, 0, False, []
    for output in outputs:
        written = np.asarray(output.written, dtype=bool)
        tainted = np.zeros_like(written) if output.tainted is None else output.tainted
        settled = written & ~tainted
        num_needed += count_needed(output.actual, output.expected, written, output.dtype)
        num_tainted += int(np.count_nonzero(tainted))
        is_uniform |= _is_one_value(output.expected[settled]) and not _is_one_value(output.expected)
        within = output.integer_range and (output.integer_range[0][settled], output.integer_range[1][settled])
        found = compare(
            output.actual[settled],
            output.expected[settled],
            output.dtype,
            output.expected_dtype,
            least_scale=output.least_scale,
            integer_range=within,
        )
        comparisons.append(evolve(found, share_of_tolerance=output.share_of_tolerance))
    num_run = sum(len(taken.written_by_program) + taken.num_unknown for taken in sample)
    overlaps = any(taken.overlaps for taken in sample)
    failure = judge_coverage(num_needed, grids, sample)
    compared = () if failure is not None else tuple(comparisons)
    return Look(
        report=RunReport(variant=variant, failure=failure, comparisons=compared),
        is_doubtful=failure is not None or num_tainted > 0 or len(grids) > 1 or overlaps,
        work_each=work / max(1, num_run),
        has_sums=num_tainted > 0,
        overlaps=overlaps,
        is_uniform=is_uniform,
    )


def _is_one_value(values: NDArray[np.generic]) -> bool:
    return bool(values.size) and bool(np.all(values == values.flat[0]))


def judge_failure(variant: Variant, failure: Failure, num_launches: int) -> Look:
    """Return the look of a sample that failed, or trespassed, before anything was compared."""
    # out of time may also be a program that waits for one that does not run
    is_doubtful = num_launches > 1 or failure.outcome is Outcome.TIMEOUT
    return Look(report=RunReport(variant=variant, failure=failure), is_doubtful=is_doubtful)


def read_hints(outputs: Sequence[SampledOutput], grids: Sequence[Grid], sample: Sequence[LaunchSample]) -> Hints | None:
    """Return what a scan of many programs suggests, or None where too few of them were scanned."""
    counts = [launch.num_unknown for launch in sample]
    totals = [math.prod(grid) for grid in grids]
    if not counts or min(counts) < min(FIRST_PROGRAMS, *totals):
        return None
    found, is_whole = [], counts == totals
    for output in outputs:
        writers = np.asarray(output.written, dtype=np.int32)
        if writers.size and writers.min() < 0:
            return None
        share = output.share_of_tolerance
        found.append(find_hints(output.actual, output.expected, writers, output.dtype, is_whole, share))
    return Hints(
        programs=tuple(program for hints in found for program in hints.programs)[:SUSPECTS],
        is_whole=is_whole,
        is_lacking=any(hints.is_lacking for hints in found),
        position=found[0].position,
    )


def judge_sum(scanned: SampledOutput, alone: NDArray[np.generic], position: int, num_addends: int) -> Failure | None:
    """Object to the value that programs add up to at a flat position, all at once (`scanned`) and one by one (`alone`).

    Both ways must agree on it, so that a scan by itself refuses nothing. `alone` has the output's shape.
    """
    at = np.unravel_index(position, scanned.expected.shape)
    value, at_once = float(alone[at]), float(scanned.actual[at])
    everywhere = np.full_like(scanned.expected, alone[at])
    is_right = are_right(everywhere, scanned.expected, scanned.dtype, scanned.share_of_tolerance)[at]
    if is_right or not np.isclose(value, at_once if math.isfinite(at_once) else 0.0, rtol=1e-2):
        return None
    message = f"{num_addends} programs add up to {value:.4g} where {float(scanned.expected[at]):.4g} is right"
    return Failure(Outcome.WRONG_VALUES, message)


def judge_rest(hints: Hints | None) -> Failure | None:
    """Object where how much programs write does not add up, and a scan of all leaves elements unwritten."""
    if hints is None or not hints.is_lacking:
        return None
    return Failure(Outcome.OUTPUT_NOT_WRITTEN, "all programs together do not write the whole result")
