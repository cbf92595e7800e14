"""Stages 3 and 4: the plan, executed, gives the reference's values.

The tiny run is a cheap first look at sizes of a few elements that are no multiple of any block; the full run takes the
verifier's input variants, each at sizes that the backend can run. Both judge alike: the execution finished, inputs are
as they were, nothing was written outside the buffers, and every returned tensor is within tolerance of the oracle.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from ..core.candidate import Candidate, Comparison, ConfigurationRun, Failure, KnockOut, RunReport
from ..core.outcome import Outcome, Stage
from ..core.verdict import StageResult
from .decision import decide, skip
from .tolerance import accepts


def judge_tiny(candidate: Candidate) -> StageResult:
    """The tiny run's decision."""
    report = candidate.evidence.tiny
    if report is None:
        return skip(Stage.TINY)
    return decide(Stage.TINY, judge_run(report), report.seconds)


def judge_full(candidate: Candidate) -> StageResult:
    """The full run's decision: every variant that was run must be right; the message names the first that is not.

    And without its launches the plan must not be right, its tuners' other configurations must be, and the call in which
    they measure, and its code must be what the kernels' text compiles to, where that was tried.
    """
    evidence = candidate.evidence
    if not evidence.full:
        return skip(Stage.FULL)
    reports = [
        *evidence.full,
        *evidence.interpreted,
        *(report for knock_out in evidence.knock_outs for report in knock_out.reports),
    ]
    failure = _find_first_failure(evidence.full) or _find_irrelevance(evidence.knock_outs)
    failure = failure or _find_wrong_configuration((*evidence.configurations, *evidence.first_calls))
    failure = failure or _find_first_failure(evidence.interpreted, "interpreted, variant")
    seconds = sum(report.seconds for report in reports)
    seconds += sum(run.report.seconds for run in (*evidence.configurations, *evidence.first_calls))
    if evidence.recompile is not None:
        failure = failure or evidence.recompile.failure
        seconds += evidence.recompile.seconds
    result = decide(Stage.FULL, failure, seconds)
    narrow = [str(report.variant) for report in evidence.full if report.oracle_dtype != "float64"]
    if failure is None and narrow:
        return evolve(result, message=f"expected values in float32: variant {', '.join(narrow)}")
    return result


def _find_irrelevance(knock_outs: Sequence[KnockOut]) -> Failure | None:
    """The objection to a plan that was accepted without its launches on all inputs tried."""
    for knock_out in knock_outs:
        if knock_out.reports and all(judge_run(report) is None for report in knock_out.reports):
            message = "" if knock_out.fill is None else f"with {knock_out.fill:g} in the place of what they write"
            return Failure(outcome=Outcome.KERNEL_IRRELEVANT, message=message)
    return None


def _find_wrong_configuration(runs: Sequence[ConfigurationRun]) -> Failure | None:
    for run in runs:
        failure = judge_run(run.report)
        if failure is not None:
            message = f"configuration {run.description or run.choice}: {failure.message}".rstrip(": ")
            return Failure(outcome=failure.outcome, message=message)
    return None


def _find_first_failure(reports: Sequence[RunReport], what: str = "variant") -> Failure | None:
    for report in reports:
        failure = judge_run(report)
        if failure is not None:
            message = f"{what} {report.variant}: {failure.message}".rstrip(": ")
            return Failure(outcome=failure.outcome, message=message)
    return None


def judge_run(report: RunReport) -> Failure | None:
    """Why one execution is not right, or None."""
    if report.failure is not None:
        return report.failure
    if not report.comparisons:
        return Failure(outcome=Outcome.BROKEN_PROTOCOL, message="no output was returned")
    for position, comparison in enumerate(report.comparisons):
        failure = _judge_comparison(comparison)
        if failure is not None:
            where = f"output {position}: " if len(report.comparisons) > 1 else ""
            return Failure(outcome=failure.outcome, message=where + failure.message)
    return None


def _judge_comparison(comparison: Comparison) -> Failure | None:
    if accepts(comparison):
        return None
    if not comparison.shape_matches:
        return Failure(outcome=Outcome.WRONG_SIGNATURE, message="another shape than the reference's")
    if not comparison.dtype_matches:
        return Failure(
            outcome=Outcome.WRONG_SIGNATURE, message=f"{comparison.dtype} is not the dtype of the reference's result"
        )
    of_all = f"of {comparison.num_elements} elements"
    if comparison.num_nonfinite:
        return Failure(outcome=Outcome.NOT_FINITE, message=f"{comparison.num_nonfinite} {of_all}")
    if comparison.num_different:
        return Failure(outcome=Outcome.WRONG_VALUES, message=f"{comparison.num_different} {of_all} differ")
    return Failure(
        outcome=Outcome.WRONG_VALUES,
        message=f"relative error {comparison.relative_error:.2g}, worst element {comparison.worst_excess:.2g}",
    )
