"""The check of plans with their launches removed."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from ....core.candidate import Candidate, Failure
from ....core.recipe.extensions import VerifierSpec
from ....core.run import RunRequest
from ....core.task import Task
from ....stages.checks.knock_out import (
    KNOCK_OUT_VARIANTS,
    KnockOut,
    KnockOutReport,
    fills_to_try,
    without_launches,
)
from ....stages.variants import VariantInputs
from ...reference.oracle import ExpectedRun
from ..context import VerifierContext
from ..runs import prepare_run, report_runs


def gather(candidate: Candidate, task: Task, context: VerifierContext, spec: VerifierSpec) -> KnockOutReport:
    """Run the plan without its launches, where anything could be left of its result."""
    inputs = [context.describe(variant, task) for variant in KNOCK_OUT_VARIANTS]
    pairs = _prepare(candidate, task, context, inputs)
    return KnockOutReport(knock_outs=tuple(_run(candidate, context, pairs)))


def _run(
    candidate: Candidate, context: VerifierContext, pairs: list[tuple[RunRequest, ExpectedRun]]
) -> Iterator[KnockOut]:
    for fill in fills_to_try(pairs[0][0].plan) if pairs else ():
        changed = [(evolve(request, plan=without_launches(request.plan, fill)), wanted) for request, wanted in pairs]
        reply = context.runner.run(candidate.source, [request for request, _ in changed])
        yield KnockOut(reports=tuple(report_runs(changed, reply.results, reply.failure, reply.seconds)), fill=fill)


def _prepare(
    candidate: Candidate, task: Task, context: VerifierContext, wanted: list[VariantInputs]
) -> list[tuple[RunRequest, ExpectedRun]]:
    """Returns requests for the wanted inputs, or none where the first one's plan needs no such run."""
    pairs: list[tuple[RunRequest, ExpectedRun]] = []
    for inputs in wanted:
        prepared = prepare_run(candidate, task, context, inputs)
        if isinstance(prepared, Failure) or not fills_to_try(prepared[0].plan):
            return []
        pairs.append(prepared)
    return pairs
