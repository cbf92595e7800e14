"""Stage 5: how the candidate's runtime compares with the reference's.

The stage has no opinion on speed: it passes where both runtimes are known. A single cold measurement gives one trial;
the calibrated protocol gives many, of which a share is trimmed at each end before the mean is taken. What the
simulated timing produced fills `estimated_speedup` and never `speedup`.

The speedup is the one over eager PyTorch, which is timed in turns with the candidate. The one over `torch.compile` is
that times a ratio of two figures of the reference, which were in their turn measured together: each factor compares
what ran side by side. What makes a measurement doubtful (held clocks, a control that differs from what it repeats, a
queue that ran empty) is said in the stage's message, and refuses nothing; so is what an autotuner would have chosen.
"""

from __future__ import annotations

import math

from ..core.candidate import Candidate, Failure, TimingReport
from ..core.outcome import Outcome, Stage
from ..core.statistics.intervals import trimmed_mean
from ..core.verdict import StageResult, decide, skip

TRIM = 0.1
UNSTEADY = 0.02
"""An A/A control that differs from 1 by more is worth a word."""


def judge_timing(candidate: Candidate) -> StageResult:
    """The timing stage's decision."""
    report = candidate.evidence.timing
    if report is None:
        return skip(Stage.TIMING)
    failure = report.failure
    if failure is None and speedup_of(report) is None:
        failure = Failure(Outcome.RUN_FAILED, "no usable trial")
    if failure is not None:
        return decide(Stage.TIMING, failure, report.seconds)
    words = "; ".join([*find_doubts(report), *_name_configuration(report)])
    return StageResult(stage=Stage.TIMING, outcome=Outcome.PASSED, seconds=report.seconds, message=words)


def speedup_of(report: TimingReport, trim: float = TRIM) -> float | None:
    """Reference runtime over candidate runtime, or None where either is unknown: a trial is no positive time."""
    if report.failure is not None:
        return None
    for trials_us in (report.candidate_us, report.reference_us):
        if not trials_us or not all(math.isfinite(trial) and trial > 0.0 for trial in trials_us):
            return None
    return trimmed_mean(report.reference_us, trim) / trimmed_mean(report.candidate_us, trim)


def compiled_speedup_of(report: TimingReport, trim: float = TRIM) -> float | None:
    """The runtime of the reference by `torch.compile` over the candidate's, or None where one of them is unknown."""
    speedup, reference = speedup_of(report, trim), report.reference
    if speedup is None or report.simulated or reference is None or not reference.eager_us or not reference.compiled_us:
        return None
    eager_us, compiled_us = trimmed_mean(reference.eager_us, trim), trimmed_mean(reference.compiled_us, trim)
    return speedup * compiled_us / eager_us if eager_us > 0.0 else None


def control_ratio_of(report: TimingReport) -> float | None:
    """The candidate's runtime over the one that the A/A control measured once more; None without a control."""
    if not report.control_us or not report.candidate_us:
        return None
    control_us = trimmed_mean(report.control_us, TRIM)
    return trimmed_mean(report.candidate_us, TRIM) / control_us if control_us > 0.0 else None


def _name_configuration(report: TimingReport) -> list[str]:
    chosen = [one.description for one in report.configurations if one.is_chosen]
    return [f"timed with {words}, the quickest of {len(report.configurations)}" for words in chosen]


def find_doubts(report: TimingReport) -> list[str]:
    """What speaks against a measurement, in words; empty for none."""
    doubts = []
    if report.clocks is not None and report.clocks.throttled_by:
        doubts.append(f"clocks held down: {', '.join(report.clocks.throttled_by)}")
    ratio = control_ratio_of(report)
    if ratio is not None and abs(ratio - 1.0) > UNSTEADY:
        doubts.append(f"unsteady: the A/A control gives {ratio:.3f}")
    if report.num_late:
        doubts.append(f"{report.num_late} replays found an empty queue")
    if report.reference is not None:
        doubts += report.reference.notes
    return doubts
