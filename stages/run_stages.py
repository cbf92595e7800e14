"""Stages 3 and 4: the plan, executed, gives the reference's values.

The tiny run is a cheap first look at sizes of a few elements that are no multiple of any block. The full run is a
series of checks (`stages.checks.table`), of which the first takes the verifier's input variants, each at sizes that the
backend can run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import evolve

from ..core.candidate import Candidate, RunReport
from ..core.outcome import Stage
from ..core.verdict import StageResult
from .checks.runs import RunsReport
from .checks.table import CHECKS, Check, find_failure
from .decision import decide, skip
from .judge_run import judge_run


def judge_tiny(candidate: Candidate) -> StageResult:
    """Returns the tiny run's decision."""
    report = candidate.evidence.tiny
    if report is None:
        return skip(Stage.TINY)
    return decide(Stage.TINY, judge_run(report), report.seconds)


def judge_full(candidate: Candidate, checks: Sequence[Check] = CHECKS) -> StageResult:
    """Returns the full run's decision: that of the first check that objects, and the seconds of all that were made."""
    reports = candidate.evidence.reports
    if not reports:
        return skip(Stage.FULL)
    failure = find_failure(candidate, checks)
    result = decide(Stage.FULL, failure, sum(report.seconds for _, report in reports))
    narrow = [str(run.variant) for run in find_runs(candidate) if run.oracle_dtype != "float64"]
    if failure is None and narrow:
        return evolve(result, message=f"expected values in float32: variant {', '.join(narrow)}")
    return result


def find_runs(candidate: Candidate) -> Iterator[RunReport]:
    """Returns the runs on inputs of the candidate's own backend: all but what the interpreter says beside a GPU."""
    for name, report in candidate.evidence.reports:
        if isinstance(report, RunsReport) and name != "interpreted":
            yield from report.runs
