"""The check of large sizes where the backend cannot run them whole: samples of their programs.

The declared sizes are looked at in each of the contract's first two dtypes, and odd sizes beyond them in the first, if
the oracle can compute them in about a second. That is the task's doing; what a candidate does counts against it: a
plan that needs more time, memory or language than there is here is refused, as the sizes that are rewarded would be
the ones that nobody has seen. Where programs depend on others, or the sample leaves a doubt, all of them run, if they
are few enough. The backend that runs plans on a GPU runs all in any case, but where code takes too long to compile at
sizes that nobody declared, and for arranged values: these are looked at as without a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from ....core.candidate import Candidate, CompileReport, RunReport, Variant
from ....core.recipe.extensions import VerifierSpec
from ....core.task import Profile, Task
from ....stages.checks.runs import RunsReport
from ....stages.compile_stage import find_recording, find_unseen_kernel
from ....stages.judge_run import judge_run
from ....stages.variant_inputs import VariantInputs
from ....stages.variants import variants_of
from ..context import VerifierContext
from ..recordings import later_variants
from ..runs import split
from .samples import prepare_sample, run_together, sample_briefly


def gather(candidate: Candidate, task: Task, context: VerifierContext, spec: VerifierSpec) -> RunsReport | None:
    """Sample runs at large sizes, where there can be any.

    A kernel that only the declared sizes launch, as where host code chooses by size, is looked at for every verifier,
    also one that did not want the samples; where it cannot be looked at, the candidate is refused.
    """
    compiled = candidate.evidence.compile
    if compiled is None:
        return None
    is_wanted = Variant.DECLARED in variants_of(spec)
    if context.cuda is not None:
        # what a GPU could not compile in time has no report yet
        ran = candidate.evidence.report("variants")
        known = {run.variant for run in ran.runs} if isinstance(ran, RunsReport) else set()
        missing = [each for each in later_variants(task, context) if each.variant not in known]
        reports = _find_later(candidate, task, evolve(context, cuda=None), missing) if is_wanted else []
    else:
        reports = _sample(candidate, task, context, compiled, is_wanted)
    return RunsReport(runs=tuple(reports)) if reports else None


def _sample(
    candidate: Candidate, task: Task, context: VerifierContext, compiled: CompileReport, is_wanted: bool
) -> list[RunReport]:
    unseen = find_unseen_kernel(compiled)
    if not is_wanted and unseen is None:
        return []
    declared = context.describe(Variant.DECLARED, task)
    recording = find_recording(compiled, Profile.DECLARED, declared.dtype)
    is_possible = recording is not None and recording.plan is not None and not recording.plan.operators
    if is_possible and context.oracle.is_within_reach(task):
        reports = _find_reports(candidate, task, context, [declared])
        if is_wanted and all(judge_run(report) is None for report in reports):
            reports += _find_later(candidate, task, context, later_variants(task, context))
        return reports
    reached = [each for each in later_variants(task, context) if each.profile in (Profile.BETWEEN, Profile.BEYOND)]
    if is_possible and is_wanted and reached:
        # as far as the judge can follow; the declared sizes themselves are left to a GPU
        reports = _find_reports(candidate, task, context, reached)
        if unseen is None or any(judge_run(report) is not None for report in reports):
            return reports
    return [RunReport(variant=Variant.DECLARED, failure=unseen)] if unseen is not None else []


def _find_later(
    candidate: Candidate, task: Task, context: VerifierContext, later: Sequence[VariantInputs]
) -> list[RunReport]:
    """Reports on samples at these sizes and of arranged values, where no objection is to what the reference misses."""
    arranged = context.describe(Variant.ARRANGED, task)
    is_arranged = context.oracle.is_within_reach(task) and context.oracle.are_arranged(task, arranged)
    reports = _find_reports(candidate, task, context, [*later, *([arranged] if is_arranged else [])])
    is_objected = any(report.variant is Variant.ARRANGED and judge_run(report) is not None for report in reports)
    # only now, since it runs the reference once more
    return reports[:-1] if is_objected and not context.oracle.is_exact(task, arranged) else reports


def _find_reports(
    candidate: Candidate, task: Task, context: VerifierContext, variants: Sequence[VariantInputs]
) -> list[RunReport]:
    """Reports up to the first that objects; the samples that are not yet known are taken in as few children as fit."""
    reports: list[RunReport] = []
    for group, needed in split(task, context, variants, context.budget.num_bytes):
        # sizes that the judge can follow are looked at wherever it runs, if one by one
        with context.budget.asked(min(needed, context.budget.num_bytes), task.task_id):
            reports += _sample_each(candidate, task, context, group)
        if any(judge_run(report) is not None for report in reports):
            break
    return reports


def _sample_each(
    candidate: Candidate, task: Task, context: VerifierContext, variants: Sequence[VariantInputs]
) -> list[RunReport]:
    keys = [context.key(candidate, task, f"full:{inputs.variant}") for inputs in variants]
    reports = run_together(
        [
            context.store.get(key, RunReport) or prepare_sample(candidate, task, context, inputs)
            for key, inputs in zip(keys, variants, strict=True)
        ]
    )
    for key, report in zip(keys, reports, strict=False):
        context.store.put(key, report)
    return reports


def sample_others(
    wanted: Sequence[tuple[Candidate, VariantInputs]], task: Task, context: VerifierContext
) -> list[RunReport]:
    """Reports of small samples of plans that differ in what their tuners chose, up to the first that objects."""
    reports: list[RunReport] = []
    for group, needed in split(task, context, [inputs for _, inputs in wanted], context.budget.num_bytes):
        with context.budget.asked(min(needed, context.budget.num_bytes), task.task_id):
            pairs = wanted[len(reports) :][: len(group)]
            reports += sample_briefly([(candidate, task, inputs) for candidate, inputs in pairs], context)
        if judge_run(reports[-1]) is not None:
            break
    return reports
