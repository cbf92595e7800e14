"""Whether one execution of a plan gave the reference's values.

It finished, inputs are as they were, nothing was written outside the buffers, and every returned tensor is within
tolerance of the oracle.
"""

from __future__ import annotations

from ..core.candidate import Comparison, Failure, RunReport
from ..core.outcome import Outcome
from .tolerance import accepts


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
