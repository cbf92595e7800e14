"""The interpreter's check of what a GPU accepts: tiny, small, by chance, and at sizes of no profile."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from ....core.candidate import Candidate, Failure, RunReport, Variant
from ....core.recipe.extensions import VerifierSpec
from ....core.task import Profile, Task
from ....stages.checks.runs import RunsReport
from ....stages.variants import describe
from ..context import VerifierContext
from ..runs import prepare_run, run_prepared


def gather(candidate: Candidate, task: Task, context: VerifierContext, spec: VerifierSpec) -> RunsReport:
    """Interpret the plans at the sizes that can be interpreted whole."""
    return RunsReport(runs=tuple(_run(candidate, task, evolve(context, cuda=None))))


def _run(candidate: Candidate, task: Task, context: VerifierContext) -> Iterator[RunReport]:
    wanted = [describe(Variant.ORIGINAL, task.dtypes, profile) for profile in (Profile.TINY, Profile.SMALL)]
    wanted.append(describe(Variant.REVERSED, task.dtypes))
    if context.oracle.remainder(task):
        wanted.append(describe(Variant.REMAINDER, task.dtypes))
    for inputs in wanted:
        prepared = prepare_run(candidate, task, context, inputs)
        if isinstance(prepared, Failure):
            yield RunReport(variant=inputs.variant, seconds=0.0, failure=prepared)
        else:
            yield from run_prepared(candidate, context, [prepared])
