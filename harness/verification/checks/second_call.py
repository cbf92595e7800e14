"""The check of a second call, which finds what the first one left in memory (`stages.checks.second_call`)."""

from __future__ import annotations

from attrs import evolve

from ....core.candidate import Candidate, Failure, Variant
from ....core.recipe.extensions import VerifierSpec
from ....core.task import Task
from ....stages.checks.runs import RunsReport
from ....stages.checks.second_call import run_twice
from ..context import VerifierContext
from ..runs import prepare_run, run_prepared

_FEW_VALUES, _FEW_VALUES_SCALE = 1 / 64, 0.5
"""The change between the two calls: too little for a kernel that knows its inputs by a few of them."""


def gather(candidate: Candidate, task: Task, context: VerifierContext, spec: VerifierSpec) -> RunsReport | None:
    """Run a second call, after one on slightly other values."""
    inputs = context.describe(Variant.SECOND_CALL, task)
    others = evolve(inputs, chosen_share=_FEW_VALUES, chosen_scale=_FEW_VALUES_SCALE)
    prepared, before = (prepare_run(candidate, task, context, one) for one in (inputs, others))
    if isinstance(prepared, Failure) or isinstance(before, Failure):
        return None  # a run before this one had the same plan
    request, expected = prepared
    plan, copies = run_twice(request.plan)
    storages = {**request.storages, **{copy: before[0].storages[index] for index, copy in copies.items()}}
    twice = evolve(request, plan=plan, storages=storages)
    return RunsReport(runs=tuple(run_prepared(candidate, context, [(twice, expected)])))
