"""Stage 5: how the candidate's runtime compares with the reference's.

The stage has no opinion on speed: it passes where both runtimes are known. A single cold measurement gives one trial;
the calibrated protocol gives many, of which a share is trimmed at each end before the mean is taken. What the
simulated clock produced fills `estimated_speedup` and never `speedup`.
"""

from __future__ import annotations

import math

from ..core.candidate import Candidate, Failure, TimingReport
from ..core.outcome import Outcome, Stage
from ..core.statistics import trimmed_mean
from ..core.verdict import StageResult
from .decision import decide, skip

TRIM = 0.1


def judge_timing(candidate: Candidate) -> StageResult:
    """The timing stage's decision."""
    report = candidate.evidence.timing
    if report is None:
        return skip(Stage.TIMING)
    failure = report.failure
    if failure is None and speedup_of(report) is None:
        failure = Failure(outcome=Outcome.RUN_FAILED, message="no usable trial")
    return decide(Stage.TIMING, failure, report.seconds)


def speedup_of(report: TimingReport, trim: float = TRIM) -> float | None:
    """Reference runtime over candidate runtime, or None where either is unknown: a trial is no positive time."""
    if report.failure is not None:
        return None
    for trials_us in (report.candidate_us, report.reference_us):
        if not trials_us or not all(math.isfinite(trial) and trial > 0.0 for trial in trials_us):
            return None
    return trimmed_mean(report.reference_us, trim) / trimmed_mean(report.candidate_us, trim)
