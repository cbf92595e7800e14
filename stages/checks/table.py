"""The checks of the full stage, in order.

Each takes what those before it accept, and one that objects ends the stage. Training verifiers make the first three;
the audit makes all. A check is a line here, a pure module beside this one that judges its report, and a probe of the
same name that gathers the report, where there is anything to gather (`harness.verification.checks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from attrs import frozen

from ...core.candidate import Candidate, CheckReport, Failure
from ...core.recipe.extensions import VerifierSpec
from . import configurations, knock_out, recompile
from .configurations import ConfigurationsReport
from .knock_out import KnockOutReport
from .recompile import RecompileReport
from .runs import RunsReport, judge_runs


@frozen(kw_only=True)
class Check:
    """One check: the name of its evidence, the class of its report, and the decisions about it.

    `hidden`: only the audit makes it. `is_shared`: verifiers want different parts of its report, so that its probe
    stores the parts; the report of any other check is stored whole, under the check's name.
    """

    name: str
    report: type[CheckReport]
    judge: Callable[[Any], Failure | None]
    hidden: bool = True
    is_shared: bool = False


CHECKS: tuple[Check, ...] = (
    Check(name="variants", report=RunsReport, judge=judge_runs, hidden=False, is_shared=True),
    Check(name="declared", report=RunsReport, judge=judge_runs, hidden=False, is_shared=True),
    Check(name="knock_out", report=KnockOutReport, judge=knock_out.judge, hidden=False),
    Check(name="configurations", report=ConfigurationsReport, judge=configurations.judge),
    Check(name="first_calls", report=ConfigurationsReport, judge=configurations.judge),
    Check(name="past_bounds", report=RunsReport, judge=judge_runs),
    Check(name="second_call", report=RunsReport, judge=judge_runs),
    Check(name="interpreted", report=RunsReport, judge=partial(judge_runs, label="interpreted, variant")),
    Check(name="recompile", report=RecompileReport, judge=recompile.judge),
    # the timing probe adds it: the results of the very runs that were timed
    Check(name="timed", report=RunsReport, judge=judge_runs, hidden=False, is_shared=True),
)


def checks_of(spec: VerifierSpec, checks: Sequence[Check] = CHECKS) -> tuple[Check, ...]:
    """Returns the checks that a verifier makes, in order."""
    return tuple(check for check in checks if spec.hidden or not check.hidden)


def find_failure(candidate: Candidate, checks: Sequence[Check] = CHECKS) -> Failure | None:
    """Returns the first check's objection to a candidate's evidence, or None."""
    for check in checks:
        report = candidate.evidence.report(check.name)
        failure = None if report is None else check.judge(report)
        if failure is not None:
            return failure
    return None
