"""The check of a second compilation, where no host code changes what the compiler sees."""

from __future__ import annotations

from ....core.candidate import Candidate
from ....core.recipe.extensions import VerifierSpec
from ....core.task import Task
from ....stages.checks.recompile import RecompileReport, find_declared_plan, find_difference
from ..context import VerifierContext


def gather(candidate: Candidate, task: Task, context: VerifierContext, spec: VerifierSpec) -> RecompileReport | None:
    """Compare the declared plan's kernels with what a clean child makes of their text."""
    plan = find_declared_plan(candidate, task)
    if plan is None:
        return None
    context.get_ready()
    reply = context.sandbox.recompile(candidate.source, plan)
    failure = reply.failure or find_difference(plan, reply.kernels)
    return RecompileReport(seconds=reply.seconds, failure=failure)
