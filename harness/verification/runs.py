"""Runs of recorded plans on a variant's inputs: prepared, executed in one child, and compared with the oracle.

Seconds are the candidate's own cost: the child process, its run, and the
comparison; the oracle's work is the task's and is shared by all candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from attrs import evolve

from ...core.candidate import Candidate, CompileReport, Failure, RunReport, Variant
from ...core.outcome import Outcome
from ...core.plan import BufferKind, CompiledAccess, Kernel, LaunchPlan
from ...core.run import RunReply, RunRequest
from ...core.seeds import derive
from ...core.task import Profile, Task
from ...stages.compile_stage import (
    cuts_to_tf32,
    find_recording,
    find_unseen_operator,
    judge_compile,
    judge_recording,
    narrows,
    places_by_floats,
)
from ...stages.judge_run import judge_run
from ...stages.plan_validation import check_structure
from ...stages.syntax import judge_syntax
from ...stages.tolerance import SHARE_WITHOUT_PRODUCTS, TOLERANCES, choose_share
from ...stages.variant_inputs import VariantInputs
from ...stages.variants import ROWS, SAMPLED_VARIANTS, describe
from ..reference.conditioning import Conditioning
from ..reference.expected_run import ExpectedRun
from .context import VerifierContext
from .large_runs import is_large, run_large_variant
from .memory_budget import FREE_BYTES
from .recordings import LATER, record_later, record_own_values, record_request
from .run_reports import report_runs
from .storages import fill_storages

PATIENCE = 6
"""Programs at large sizes may take so many times as long as the limits allow."""
_LARGEST_WHOLE = frozenset({Variant.LARGER, Variant.REMAINDER, Variant.PAST_BOUNDS})
"""The largest sizes that are interpreted whole; beside others they take no longer than they all may."""
_PARTS_OF_BUDGET = 32
_FLOAT32_DIGITS, _SPARE_DIGITS = 24, 2
_JUDGED_LATER = (Profile.LARGER, *LATER)


def _plans(report: CompileReport) -> list[LaunchPlan]:
    return [recording.plan for recording in report.recordings if recording.plan is not None]


def run_each(
    candidate: Candidate, task: Task, context: VerifierContext, probe: str, wanted: Sequence[VariantInputs]
) -> list[RunReport]:
    """Reports for the wanted runs; they end early after a run that took the whole child down."""
    keys = {each.variant: context.key(candidate, task, f"{probe}:{each.variant}") for each in wanted}
    found = {variant: context.store.get(key, RunReport) for variant, key in keys.items()}
    most = max(FREE_BYTES, context.budget.num_bytes // _PARTS_OF_BUDGET)
    for group, needed in split(task, context, [each for each in wanted if found[each.variant] is None], most):
        with context.budget.asked(needed, task.task_id):
            reports = _execute(candidate, task, context, group)
        for report in reports:
            context.store.put(keys[report.variant], report)
            found[report.variant] = report
        if any(judge_run(report) is not None for report in reports):
            break
    return [report for report in found.values() if report is not None]


def split(
    task: Task, context: VerifierContext, wanted: Sequence[VariantInputs], most: int
) -> Iterator[tuple[list[VariantInputs], float]]:
    """The wanted runs in groups of which each goes into one child, with the memory that it needs.

    No group takes more than `most` bytes, but for a run that needs more than that by itself.
    """
    group: list[VariantInputs] = []
    total = 0.0
    for inputs in wanted:
        if is_large(task, context, inputs):
            # it asks for itself, also for the GPU's memory, which nobody who holds the host's may wait for
            if group:
                yield group, total
            group, total = [], 0.0
            yield [inputs], 0.0
            continue
        needed = context.needed_bytes(task, inputs)
        if group and total + needed > most:
            yield group, total
            group, total = [], 0.0
        group.append(inputs)
        total += needed
    if group:
        yield group, total


def probe_tiny(candidate: Candidate, task: Task, context: VerifierContext) -> Candidate:
    """Run the original inputs at tiny sizes."""
    inputs = describe(Variant.ORIGINAL, task.dtypes, Profile.TINY)
    (report,) = run_each(candidate, task, context, "tiny", [inputs])
    return candidate.with_evidence(tiny=report)


def _execute(
    candidate: Candidate, task: Task, context: VerifierContext, missing: Sequence[VariantInputs]
) -> list[RunReport]:
    ready: list[tuple[RunRequest, ExpectedRun]] = []
    blocked: list[tuple[VariantInputs, Failure]] = []
    large: list[RunReport] = []
    for inputs in missing:
        if is_large(task, context, inputs):
            large.append(_run_large(candidate, task, context, inputs))
            continue
        prepared = prepare_run(candidate, task, context, inputs)
        if isinstance(prepared, Failure):
            blocked.append((inputs, prepared))
        else:
            ready.append(prepared)
    reports = _attempt(candidate, task, context, blocked)
    return reports + run_prepared(candidate, context, ready) + large


def _run_large(candidate: Candidate, task: Task, context: VerifierContext, inputs: VariantInputs) -> RunReport:
    prepared = _prepare_plan(candidate, task, context, inputs)
    if isinstance(prepared, Failure):
        return RunReport(variant=inputs.variant, failure=prepared)
    plan, report = prepared
    seeded = find_seeded_parameters(plan, report.reference.parameters)
    share = _choose_share(report, task, context, inputs, bool(seeded))
    return run_large_variant(task, context, inputs, plan, seeded, share)


def _attempt(
    candidate: Candidate, task: Task, context: VerifierContext, blocked: Sequence[tuple[VariantInputs, Failure]]
) -> list[RunReport]:
    """Reports of the runs that no plan could be had for.

    Where an earlier stage failed, only an exhaustive verifier gets here, and its runs start from the source: without
    a plan to reuse, they import the module and call forward at their sizes once more. That costs what it costs, and
    counts for the first report; the outcomes are what the compile probe found, whatever a repetition would say.
    """
    reports = [RunReport(variant=inputs.variant, failure=failure) for inputs, failure in blocked]
    if not reports or (judge_syntax(candidate).passed and judge_compile(candidate).passed):
        return reports
    sizes = dict.fromkeys((inputs.profile, inputs.dtype) for inputs, _ in blocked)
    requests = [record_request(task, context.oracle, profile, dtype, False) for profile, dtype in sizes]
    context.get_ready()
    reply = context.record(candidate, requests)
    return [evolve(reports[0], seconds=reply.seconds), *reports[1:]]


def run_prepared(
    candidate: Candidate, context: VerifierContext, ready: Sequence[tuple[RunRequest, ExpectedRun]]
) -> list[RunReport]:
    """Reports of runs in one child; they end early after a run that took the whole child down."""
    if not ready:
        return []
    context.get_ready()
    reply = _run(candidate, context, [request for request, _ in ready])
    if reply.failure is None or len(ready) == 1:
        return report_runs(ready, reply.results, reply.failure, reply.seconds)
    # one run took the others down with it: find out which, and leave what comes after it unknown
    reports = []
    for pair in ready:
        alone = _run(candidate, context, [pair[0]])
        reports += report_runs([pair], alone.results, alone.failure, alone.seconds)
        if alone.failure is not None:
            break
    return reports


def _run(candidate: Candidate, context: VerifierContext, requests: Sequence[RunRequest]) -> RunReply:
    if context.cuda is not None:
        return context.cuda.run(candidate.source, requests)
    is_patient = all(request.variant in _LARGEST_WHOLE for request in requests)
    return context.sandbox.run(candidate.source, requests, PATIENCE if is_patient else 1)


def prepare_run(
    candidate: Candidate, task: Task, context: VerifierContext, inputs: VariantInputs
) -> tuple[RunRequest, ExpectedRun] | Failure:
    """The request for one variant, or why its plan cannot be run."""
    prepared = _prepare_plan(candidate, task, context, inputs)
    if isinstance(prepared, Failure):
        return prepared
    plan, report = prepared
    seeded = find_seeded_parameters(plan, report.reference.parameters)
    expected = context.oracle.expected(task, inputs, seeded)
    conditioning = _find_conditioning(report, task, context, inputs, seeded)
    expected = evolve(
        expected,
        share_of_tolerance=_choose_share(report, task, context, inputs, bool(seeded)),
        largest_safe=context.oracle.traits(task).largest_safe,
        element_scales=() if conditioning is None else conditioning.element_scales,
        integer_ranges=() if conditioning is None else conditioning.integer_ranges,
        judges_elements_alone=ROWS[inputs.variant].judges_elements_alone,
        # of millions of elements one or another lies on a threshold
        find_own=partial(context.oracle.own_results, task, inputs, seeded) if inputs.profile.is_large else None,
    )
    storages = fill_storages(plan, expected, context.store.get_blob)
    if isinstance(storages, Failure):
        return storages
    seed = derive(context.oracle.seed, candidate.sha256, "layout", inputs.variant.value)
    backwards = inputs.variant is Variant.REVERSED
    # of the declared sizes programs are interpreted that launch what small sizes need not
    has_short_floats = inputs.variant in (Variant.SHORT_FLOATS, Variant.DECLARED) and places_by_floats(report)
    request = RunRequest(
        variant=inputs.variant,
        plan=plan,
        storages=storages,
        seed=seed,
        reverse=backwards,
        float_digits=_count_digits(expected) if has_short_floats else 0,
    )
    return request, expected


def _count_digits(expected: ExpectedRun) -> int:
    """The digits of floats that are too few for offsets into the largest tensor, and enough for any coordinate.

    A tensor of one axis has no other coordinates; of several, offsets have a bit or more than any axis.
    """
    shapes = [each.shape for each in (*expected.inputs, *expected.expected) if each is not None]
    num_elements, longest = (max((find(shape) for shape in shapes), default=1) for find in (math.prod, _find_longest))
    few = max(1, _count_bits(num_elements) - _SPARE_DIGITS)
    if longest < num_elements:
        few = max(few, _count_bits(longest))
    return min(_FLOAT32_DIGITS, few)


def _find_longest(shape: Sequence[int]) -> int:
    return max(shape, default=1)


def _count_bits(number: int) -> int:
    return max(1, number - 1).bit_length()


def _prepare_plan(
    candidate: Candidate, task: Task, context: VerifierContext, inputs: VariantInputs
) -> tuple[LaunchPlan, CompileReport] | Failure:
    """The plan of one variant with the report that it is of, or why it cannot be run."""
    report = candidate.evidence.compile
    if report is None:
        raise ValueError("a run needs the compile probe's evidence")
    if report.failure is not None:
        return report.failure
    recording = find_recording(report, inputs.profile, inputs.dtype)
    if recording is None and inputs.variant in (
        *(Variant.NUMBERS, Variant.REMAINDER, Variant.INNER_ONE, *SAMPLED_VARIANTS),
    ):
        recording = record_later(candidate, task, context, inputs)
    if recording is not None and inputs.profile.is_large:
        recording = record_own_values(candidate, task, context, recording)
    if recording is None:
        return Failure(Outcome.BROKEN_PROTOCOL, f"nothing was recorded at {inputs.profile} sizes")
    if recording.plan is None:
        return recording.failure or Failure(Outcome.BROKEN_PROTOCOL, "neither plan nor failure")
    plan = _add_accesses(recording.plan, report)
    failure = check_structure(plan)
    if failure is None and plan.arithmetic:
        failure = judge_recording(recording, report, candidate.purity)
    if failure is None and (inputs.profile in _JUDGED_LATER or inputs.dtype != task.dtypes[0]):
        # the compile stage judged the other recordings
        failure = judge_recording(recording, report, candidate.purity)
    if failure is None and context.backend == "interpret" and all(check_structure(p) is None for p in _plans(report)):
        failure = find_unseen_operator(report)
    return (plan, report) if failure is None else failure


def _add_accesses(plan: LaunchPlan, report: CompileReport) -> LaunchPlan:
    """The plan, with the accesses of the code at the declared sizes for kernels that were not compiled."""
    known: dict[tuple[str, str], set[tuple[CompiledAccess, ...]]] = {}
    for kernel in (kernel for compiled in _plans(report) for kernel in compiled.kernels if kernel.binary is not None):
        known.setdefault((kernel.qualname, kernel.source_sha256), set()).add(kernel.accesses)

    def find(kernel: Kernel) -> tuple[CompiledAccess, ...]:
        found = known.get((kernel.qualname, kernel.source_sha256), set())
        return next(iter(found)) if kernel.binary is None and len(found) == 1 else kernel.accesses

    return evolve(plan, kernels=tuple(evolve(kernel, accesses=find(kernel)) for kernel in plan.kernels))


def _find_conditioning(
    report: CompileReport, task: Task, context: VerifierContext, inputs: VariantInputs, seeded: frozenset[str]
) -> Conditioning | None:
    """How results answer to noise, where single elements are judged or integers come from rounding.

    Elements are at sizes that are quickly computed a few times, in a dtype that has digits.
    """
    traits = context.oracle.traits(task)
    is_small = inputs.profile is Profile.SMALL and inputs.dtype == "float32"
    has_elements = ROWS[inputs.variant].is_by_element and is_small and traits.is_exact_near_zero
    has_ties = traits.rounds and any(dtype not in TOLERANCES for dtype in report.reference.dtypes)
    if not (has_elements or has_ties):
        return None
    found = context.oracle.conditioning(task, inputs, seeded)
    return found if has_elements or found is None else evolve(found, element_scales=())


def _choose_share(
    report: CompileReport, task: Task, context: VerifierContext, inputs: VariantInputs, has_own_parameters: bool
) -> float:
    cuts = cuts_to_tf32(report)
    if (
        inputs.variant is Variant.EXACT_PRODUCTS
        and inputs.dtype == "float32"
        and context.oracle.traits(task).num_products == 1
        and not (has_own_parameters and cuts)
    ):
        return SHARE_WITHOUT_PRODUCTS  # of operands that matrix units do not round, but parameters of the plan's own
    return choose_share(
        inputs.dtype,
        multiplies_matrices=context.oracle.traits(task).num_products > 0,
        cuts_to_tf32=cuts,
        may_cut_unasked=context.cuda is not None and cuts and not narrows(report),
        is_large=ROWS[inputs.variant].is_large,
    )


def find_seeded_parameters(plan: LaunchPlan, reference: Sequence[str]) -> frozenset[str]:
    """The reference's parameters that keep their seeded values: where the plan has names of its own, those it lacks."""
    names = {buffer.name for buffer in plan.buffers if buffer.kind is BufferKind.PARAMETER}
    return frozenset() if names <= set(reference) else frozenset(reference) - names
