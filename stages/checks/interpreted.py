"""Whether the interpreter accepts what a GPU has run.

A GPU shows values only. It does not say that a kernel read what nobody wrote, that it left its tensors and came to no
harm, that it asked for the time, or that another GPU may leave something else to chance. The interpreter does.
"""

from __future__ import annotations

from ...core.candidate import Candidate, Failure
from ...core.task import Task
from .runs import RunsReport, find_first_failure
from .setting import Setting


def applies(candidate: Candidate, task: Task, setting: Setting) -> bool:
    """Returns whether plans run on a GPU, and a second opinion is wanted."""
    return setting.backend == "cuda" and setting.cross_checks


def judge(report: RunsReport) -> Failure | None:
    """Returns the first objection of the interpreter's, or None."""
    return find_first_failure(report.runs, "interpreted, variant")
