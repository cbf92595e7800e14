"""The probe of each check, and the walk through the checks.

What a probe is for is said beside its decision, in the module of its name in `stages.checks`. Every one gathers one
report from candidate, task, context and specification, or gives nothing where there is nothing to gather. Those that
need a few lines are here: variants, knock-out, second call, the interpreter's view, and recompilation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from attrs import evolve

from ....core.candidate import Candidate, CheckReport, Failure, RunReport, Variant
from ....core.recipe.extensions import VerifierSpec
from ....core.run import RunRequest
from ....core.task import Profile, Task
from ....stages.checks.knock_out import KNOCK_OUT_VARIANTS, KnockOut, KnockOutReport, fills_to_try, without_launches
from ....stages.checks.recompile import RecompileReport, find_declared_plan, find_difference
from ....stages.checks.runs import RunsReport, run_twice
from ....stages.checks.table import CHECKS, Check, checks_of
from ....stages.variant_inputs import VariantInputs
from ....stages.variants import SAMPLED_VARIANTS, SPREAD_VARIANTS, describe, variants_of
from ...reference.expected_run import ExpectedRun
from ...sandbox.wire import Depth, RecompileRequest
from ..context import VerifierContext
from ..recordings import LATER, find_uncompiled, later_variants
from ..run_reports import report_runs
from ..runs import prepare_run, run_each, run_prepared
from . import configurations, declared, first_calls, past_bounds
from .applicability import find_inapplicable, is_lost_by_reference

_RUNS_TOGETHER = 2
Gather = Callable[[Candidate, Task, VerifierContext, VerifierSpec], CheckReport | None]


def gather_variants(candidate: Candidate, task: Task, context: VerifierContext, spec: VerifierSpec) -> RunsReport:
    """Run the verifier's variants."""
    return run_variants(candidate, task, context, variants_of(spec))


def run_variants(candidate: Candidate, task: Task, context: VerifierContext, variants: Sequence[Variant]) -> RunsReport:
    """Run the wanted variants, those not yet known together in one child.

    Left out are those that say nothing about this candidate (`applicability`). Large sizes have a check of their own
    (`declared`), but for a GPU, which runs whole what it can compile; the rest of the small ones is interpreted.
    """
    whole = {inputs.variant for inputs in later_variants(task, context)} if context.cuda is not None else set()
    is_later = any(variant.value in LATER for variant in variants)
    uncompiled = {inputs.variant for inputs in find_uncompiled(candidate, task, context)} if is_later else set()
    whole -= uncompiled
    if context.cuda is not None and context.profile_of(task) is not Profile.DECLARED:
        # no other run is at the declared sizes, and it is the dearest: last
        variants, whole = (
            (*(v for v in variants if v is not Variant.DECLARED), Variant.DECLARED),
            {*whole, Variant.DECLARED},
        )
    runnable = [variant for variant in variants if variant not in SAMPLED_VARIANTS or variant in whole]
    left_out = find_inapplicable(candidate, task, context, runnable)
    wanted = [context.describe(variant, task) for variant in runnable if variant not in left_out]
    inputs = {each.variant: each for each in wanted}
    reports = run_each(candidate, task, context, "full", [each for each in wanted if each.variant not in uncompiled])
    interpreted = [each for each in wanted if each.variant in uncompiled]
    reports += run_each(candidate, task, evolve(context, cuda=None), "full", interpreted)
    kept = (report for report in reports if not is_lost_by_reference(report, task, context, inputs[report.variant]))
    return RunsReport(runs=tuple(kept))


def gather_knock_out(candidate: Candidate, task: Task, context: VerifierContext, spec: VerifierSpec) -> KnockOutReport:
    """Run the plan without its launches, where anything could be left of its result."""
    inputs = [context.describe(variant, task) for variant in KNOCK_OUT_VARIANTS]
    inputs = [each for each in inputs if context.oracle.is_accepted(task, each)]
    pairs = _prepare_knock_out(candidate, task, context, inputs)
    return KnockOutReport(knock_outs=tuple(_knock_out(candidate, context, pairs)))


def _knock_out(
    candidate: Candidate, context: VerifierContext, pairs: list[tuple[RunRequest, ExpectedRun]]
) -> Iterator[KnockOut]:
    for fill in fills_to_try(pairs[0][0].plan) if pairs else ():
        changed = [(evolve(request, plan=without_launches(request.plan, fill)), wanted) for request, wanted in pairs]
        reply = context.runner.run(candidate.source, [request for request, _ in changed])
        yield KnockOut(reports=tuple(report_runs(changed, reply.results, reply.failure, reply.seconds)), fill=fill)


def _prepare_knock_out(
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


def gather_second_call(
    candidate: Candidate, task: Task, context: VerifierContext, spec: VerifierSpec
) -> RunsReport | None:
    """Run second calls, after ones on values that differ in too few places for a kernel that knows its inputs by a few.

    What lies beyond the others is seen in any result; where the reference refuses it, values are halved.
    """
    inputs = context.describe(Variant.SECOND_CALL, task)
    others = [inputs.change_extremely(parity) for parity in (0, 1)]
    if not all(context.oracle.is_accepted(task, each) for each in others):
        others = [inputs.change_few()]
    prepared, *before = (prepare_run(candidate, task, context, each) for each in (inputs, *others))
    if isinstance(prepared, Failure):
        return None  # a run before this one had the same plan
    request, expected = prepared
    plan, copies = run_twice(request.plan)
    pairs = []
    for each in before:
        if not isinstance(each, Failure):
            storages = {**request.storages, **{copy: each[0].storages[index] for index, copy in copies.items()}}
            pairs.append((evolve(request, plan=plan, storages=storages), expected))
    return RunsReport(runs=tuple(run_prepared(candidate, context, pairs))) if pairs else None


def gather_interpreted(
    candidate: Candidate, task: Task, context: VerifierContext, spec: VerifierSpec
) -> RunsReport | None:
    """Interpret what a GPU accepts, at the sizes that can be interpreted whole.

    A GPU shows values only. It does not say that a kernel read what nobody wrote, that it left its tensors and came to
    no harm, that it asked for the time, or that another GPU may leave something else to chance. The interpreter does.
    """
    if context.cuda is None:
        return None
    return RunsReport(runs=tuple(_interpret(candidate, task, evolve(context, cuda=None))))


def _interpret(candidate: Candidate, task: Task, context: VerifierContext) -> Iterator[RunReport]:
    wanted = [describe(Variant.ORIGINAL, task.dtypes, profile) for profile in (Profile.TINY, Profile.SMALL)]
    wanted.append(describe(Variant.REVERSED, task.dtypes))
    if context.oracle.remainder(task):
        wanted.append(describe(Variant.REMAINDER, task.dtypes))
    others = (Variant.SHORT_FLOATS, *SPREAD_VARIANTS)
    left_out = find_inapplicable(candidate, task, context, others)
    wanted += [describe(variant, task.dtypes) for variant in others if variant not in left_out]
    for inputs in wanted:
        prepared = prepare_run(candidate, task, context, inputs)
        if isinstance(prepared, Failure):
            yield RunReport(variant=inputs.variant, failure=prepared)
        else:
            yield from run_prepared(candidate, context, [prepared])


def gather_recompile(
    candidate: Candidate, task: Task, context: VerifierContext, spec: VerifierSpec
) -> RecompileReport | None:
    """Compare the declared plan's kernels with what a clean child makes of their text, where none has made them."""
    plan = find_declared_plan(candidate, task)
    if plan is None or context.keeps_code:
        return None
    context.get_ready()
    reply = context.sandbox.recompile(candidate.source, [RecompileRequest(plan=plan)], Depth.PTX)
    failure = reply.failure or reply.made[0].failure or find_difference(plan, reply.made[0].kernels)
    return RecompileReport(seconds=reply.seconds, failure=failure)


GATHER: dict[str, Gather] = {
    "variants": gather_variants,
    "declared": declared.gather,
    "knock_out": gather_knock_out,
    "configurations": configurations.gather,
    "first_calls": first_calls.gather,
    "past_bounds": past_bounds.gather,
    "second_call": gather_second_call,
    "interpreted": gather_interpreted,
    "recompile": gather_recompile,
}
"""By the check's name; a check without a probe of its own is left to whoever adds its report."""


def probe_checks(
    candidate: Candidate,
    task: Task,
    context: VerifierContext,
    spec: VerifierSpec,
    checks: Sequence[Check] = CHECKS,
    probes: Mapping[str, Gather] = GATHER,
) -> Candidate:
    """Attach the reports of the checks that `spec` asks for, up to the first that objects."""
    for check in checks_of(spec, checks):
        probe = probes.get(check.name)
        # what the store has interpreted for a verifier that asks for it is none of one that does not
        if probe is None or (probe is gather_interpreted and not context.cross_checks):
            continue
        gather = partial(probe, candidate, task, context, spec)
        # a shared report hangs on what the verifier wants of it, and its probe stores the parts
        if check.is_shared:
            report = gather()
        else:
            # a few runs on the ordinary inputs together
            needed = _RUNS_TOGETHER * context.needed_bytes(task, context.describe(Variant.ORIGINAL, task))
            with context.budget.asked(min(needed, context.budget.num_bytes), task.task_id):
                report = context.once(candidate, task, check.name, check.report, gather)
        if report is None:
            continue
        candidate = candidate.with_report(check.name, report)
        if check.judge(report) is not None:
            break
    return candidate
