"""Stage 5: how the candidate's runtime compares with the reference's.

The stage has no opinion on speed: it passes where both runtimes are known. A single cold measurement gives one trial;
the calibrated protocol gives many, of which a share is trimmed at each end before the mean is taken. What the
simulated clock produced fills `estimated_speedup` and never `speedup`.
"""

from __future__ import annotations

import math

from ..core.candidate import Candidate, TimingReport
from ..core.outcome import Outcome, Stage
from ..core.verdict import StageResult

TRIM = 0.1


def judge_timing(candidate: Candidate) -> StageResult:
    """The timing stage's decision."""
    report = candidate.evidence.timing
    if report is None:
        return StageResult(stage=Stage.TIMING, outcome=Outcome.NOT_RUN)
    if report.failure is not None:
        return StageResult(
            stage=Stage.TIMING,
            outcome=report.failure.outcome,
            seconds=report.seconds,
            message=report.failure.message,
        )
    if speedup_of(report) is None:
        return StageResult(
            stage=Stage.TIMING, outcome=Outcome.RUN_FAILED, seconds=report.seconds, message="no usable trial"
        )
    return StageResult(stage=Stage.TIMING, outcome=Outcome.PASSED, seconds=report.seconds)


def speedup_of(report: TimingReport, trim: float = TRIM) -> float | None:
    """Reference runtime over candidate runtime, or None where either is unknown."""
    if report.failure is not None:
        return None
    candidate_us = trimmed_mean_us(report.candidate_us, trim)
    reference_us = trimmed_mean_us(report.reference_us, trim)
    if candidate_us is None or reference_us is None:
        return None
    return reference_us / candidate_us


def trimmed_mean_us(trials_us: tuple[float, ...], trim: float = TRIM) -> float | None:
    """Mean of the trials without the share `trim` at each end; None where a trial is not a positive time."""
    if not trials_us or not all(math.isfinite(trial) and trial > 0.0 for trial in trials_us):
        return None
    num_cut = int(len(trials_us) * trim)
    kept = sorted(trials_us)[num_cut : len(trials_us) - num_cut]
    return sum(kept) / len(kept)
