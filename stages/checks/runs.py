"""The report that most checks give: some runs, each compared with the oracle."""

from __future__ import annotations

from attrs import frozen

from ...core.candidate import Failure, RunReport
from ..judge_run import judge_run
from ..variants import ROWS


@frozen(kw_only=True)
class RunsReport:
    """Executions of plans, in the order in which they are judged."""

    runs: tuple[RunReport, ...]

    @property
    def seconds(self) -> float:
        """Returns the seconds of all runs."""
        return sum(run.seconds for run in self.runs)


def judge_runs(report: RunsReport, label: str = "variant") -> Failure | None:
    """Returns the first objection to a run, named by `label` and the run's variant, or None."""
    for run in report.runs:
        failure = judge_run(run)
        if failure is not None:
            told = f"{label} {run.variant}: {failure.message}".rstrip(": ")
            return Failure(failure.outcome, told + ROWS[run.variant].advice)
    return None
