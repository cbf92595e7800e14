"""The probe of the compile stage: which passes are recorded, which of them compiled, and what is kept of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attrs import evolve

from ...core.candidate import Candidate, CompileReport, Failure, Recording, Variant
from ...core.outcome import Outcome
from ...core.plan import Buffer, BufferKind, LaunchPlan
from ...core.task import SINGLE_SIZES, Profile, Task
from ...stages.compile_stage import JUDGED
from ...stages.variant_inputs import VariantInputs
from ..reference.oracle import Oracle
from ..sandbox.wire import RecordRequest
from .context import VerifierContext

_ASSEMBLER_KILLED = re.compile(r"`ptxas` failed with error code -(9|24)\b")
"""As Triton says it of one that SIGKILL or SIGXCPU ended."""
_OUT_OF_SHARED_MEMORY = re.compile(r"\bout of resource: shared memory\b")
LATER = (
    *(Profile.NUMBERS, Profile.REMAINDER, Profile.INNER_ONE),
    *(*SINGLE_SIZES, Profile.BETWEEN, Profile.BEYOND, Profile.TWICE, Profile.WHOLE_BLOCKS),
)
"""Sizes that only the audit records."""


def probe_compile(candidate: Candidate, task: Task, context: VerifierContext, stop_early: bool = False) -> Candidate:
    """Record every plan that any verifier needs, and compile those whose code is wanted, in one child.

    With `stop_early`, recording ends where it decides the stage; such a report is kept apart from complete ones.
    """
    key = context.key(candidate, task, "compile", is_recorded=True)
    report = context.store.get(key, CompileReport)
    stopped_key = context.key(candidate, task, "compile:stopped", is_recorded=True)
    if report is None and stop_early:
        report = context.store.get(stopped_key, CompileReport)
    if report is None:
        context.sandbox.start_soon()
        # what the reference tells is asked for while that starts
        reference = context.oracle.signature(task)
        requests = _record_requests(task, context, stop_early)
        context.get_ready()
        reply = context.record(candidate, requests)
        report = CompileReport(
            recordings=reply.recordings,
            reference=reference,
            seconds=reply.seconds,
            failure=reply.failure,
        )
        keep_blobs(context, report.recordings, reply.blobs)
        is_complete = reply.failure is not None or len(reply.recordings) == len(requests)
        context.store.put(key if is_complete else stopped_key, report)
    return candidate.with_evidence(compile=report)


def record_later(candidate: Candidate, task: Task, context: VerifierContext, inputs: VariantInputs) -> Recording:
    """The recording at sizes that only the audit uses, all of them in a child of their own.

    So no other verifier pays for them. The device is a smaller one there: host code may ask how many multiprocessors
    there are, and what depends on the answer has to be right for any.
    """
    # the first is recorded after calls at its sizes but for one, which tell most where its own are small
    together = [*_small_later_variants(task, context), *later_variants(task, context)]
    together = [inputs if other.variant is inputs.variant else other for other in together]
    if inputs not in together:
        together.insert(0, inputs)

    def gather() -> Recording:
        recordings = dict(zip(together, _record_later(candidate, task, context, together), strict=True))
        own = recordings.pop(inputs)
        for each, recording in recordings.items():
            key = context.key(candidate, task, f"compile:{each.variant}", is_recorded=True)
            context.store.put(key, recording)
        return own

    found = context.once(candidate, task, f"compile:{inputs.variant}", Recording, gather, is_recorded=True)
    assert found is not None
    return found


def _record_later(
    candidate: Candidate, task: Task, context: VerifierContext, together: Sequence[VariantInputs]
) -> list[Recording]:
    is_compiled = context.cuda is not None
    requests = [
        evolve(record_request(task, context.oracle, each.profile, each.dtype, is_compiled), is_on_smaller_card=True)
        for each in together
    ]
    first = together[0]
    neighbours = context.oracle.neighbours(task, first.profile, first.dtype)
    requests[0] = evolve(requests[0], is_built_twice=True, neighbours=neighbours)
    recordings = record_together(candidate, context, requests)
    if is_compiled and len(requests) > 1 and all(_is_out_of_time(recording.failure) for recording in recordings):
        # the compilation of one may have used up the time of all
        recordings = [record_together(candidate, context, [request])[0] for request in requests]
    return recordings


def record_together(
    candidate: Candidate, context: VerifierContext, requests: Sequence[RecordRequest]
) -> list[Recording]:
    """Recordings of one child, whose failure is that of each."""
    context.get_ready()
    reply = context.record(candidate, requests)
    if reply.failure is not None:
        return [Recording(profile=each.profile, dtype=each.dtype, failure=reply.failure) for each in requests]
    keep_blobs(context, reply.recordings, reply.blobs)
    return list(reply.recordings)


def find_uncompiled(candidate: Candidate, task: Task, context: VerifierContext) -> list[VariantInputs]:
    """The variants at sizes that nobody declared whose code takes longer to compile than there is time, or more memory.

    A kernel that takes whole rows has larger blocks there. A GPU cannot run them, and the interpreter does, or samples
    them where they are large.
    """
    compiled = candidate.evidence.compile
    if context.cuda is None or compiled is None or compiled.failure is not None:
        return []
    later = [*_small_later_variants(task, context), *later_variants(task, context)]
    return [each for each in later if _is_too_much(record_later(candidate, task, context, each).failure)]


def _is_too_much(failure: Failure | None) -> bool:
    """Whether a plan's code could not be had in time, or needs more of a block's memory than there is."""
    if failure is None:
        return False
    is_too_large = failure.outcome is Outcome.OUT_OF_RESOURCES and bool(_OUT_OF_SHARED_MEMORY.search(failure.message))
    return is_too_large or _is_out_of_time(failure)


def _is_out_of_time(failure: Failure | None) -> bool:
    """Whether recording ended at a limit of time: the child's, or that of the assembler that it had started."""
    if failure is None:
        return False
    return failure.outcome is Outcome.TIMEOUT or bool(_ASSEMBLER_KILLED.search(failure.message))


def _small_later_variants(task: Task, context: VerifierContext) -> list[VariantInputs]:
    """The variants at sizes that only the audit records, and that are interpreted whole."""
    variants = [Variant.REMAINDER] if context.oracle.remainder(task) else []
    variants += [Variant.NUMBERS] if context.oracle.has_numbers(task) else []
    variants += [Variant.INNER_ONE] if context.oracle.inner_one(task) else []
    return [context.describe(variant, task) for variant in variants]


def later_variants(task: Task, context: VerifierContext) -> list[VariantInputs]:
    """The variants at large sizes that no compile report has; a GPU runs the declared ones in both dtypes anyway."""
    variants = []
    if len(task.dtypes) > 1 and context.cuda is None:
        variants.append(Variant.DECLARED_PRECISION)
    if context.oracle.between(task):
        variants.append(Variant.BETWEEN)
    if context.oracle.beyond(task):
        variants.append(Variant.BEYOND)
    variants += [Variant(profile) for profile, _ in zip(SINGLE_SIZES, context.oracle.single_sizes(task), strict=False)]
    if context.oracle.twice(task):
        variants.append(Variant.TWICE)
    if context.oracle.whole_blocks(task):
        variants.append(Variant.WHOLE_BLOCKS)
    return [context.describe(variant, task) for variant in variants]


def record_own_values(candidate: Candidate, task: Task, context: VerifierContext, recording: Recording) -> Recording:
    """The recording at large sizes with the values that the reference has not, which only running it needs.

    It is made in a child of its own, and must be the same plan.
    """
    plan = recording.plan
    if plan is None or not has_own_values(recording, task, context):
        return recording

    def gather() -> Recording:
        is_compiled = plan.target is not None
        request = record_request(task, context.oracle, recording.profile, recording.dtype, is_compiled)
        context.get_ready()
        # the card that the recording saw (`_record_later`): other numbers of multiprocessors may be other plans
        later = {(each.profile, each.dtype) for each in later_variants(task, context)}
        is_later = recording.profile in LATER or (recording.profile, recording.dtype) in later
        reply = context.record(candidate, [evolve(request, with_values=True, is_on_smaller_card=is_later)])
        failure = reply.failure
        found = reply.recordings[0] if failure is None else evolve(recording, plan=None, failure=failure)
        if found.plan is not None and _without_values(found.plan) != _without_values(plan):
            failure = Failure(Outcome.NOT_REPRODUCIBLE, f"another plan at {recording.profile} sizes")
            found = evolve(recording, plan=None, failure=failure)
        keep_blobs(context, [found], reply.blobs)
        return found

    name = f"compile:values:{recording.profile}:{recording.dtype}"
    return context.once(candidate, task, name, Recording, gather, is_recorded=True) or recording


def has_own_values(recording: Recording, task: Task, context: VerifierContext) -> bool:
    """Whether the plan starts from values that the host code made, and the reference has not."""
    known = context.oracle.signature(task).parameters
    return recording.plan is not None and any(_lacks_values(buffer, known) for buffer in recording.plan.buffers)


def _lacks_values(buffer: Buffer, known: Sequence[str]) -> bool:
    is_own = buffer.kind is BufferKind.PARAMETER and buffer.name not in known
    return buffer.blob is None and (is_own or buffer.kind is BufferKind.CONSTANT)


def _without_values(plan: LaunchPlan) -> LaunchPlan:
    return evolve(plan, buffers=tuple(evolve(buffer, blob=None) for buffer in plan.buffers))


def record_request(task: Task, oracle: Oracle, profile: Profile, dtype: str, compile: bool) -> RecordRequest:
    """The request that records a task's solution at one profile's sizes in one dtype."""
    build = oracle.build(task, profile, dtype)
    return RecordRequest(
        profile=profile,
        dtype=dtype,
        init_json=build.init_json,
        seed=oracle.init_seed(task),
        inputs=build.inputs,
        compile=compile,
        is_same_in_evaluation=oracle.is_same_in_evaluation(task),
    )


def _record_requests(task: Task, context: VerifierContext, stop_early: bool) -> list[RecordRequest]:
    """One for each profile, and one in the contract's second dtype; on a GPU what is run is compiled too."""
    dtype = task.dtypes[0]
    wanted: list[tuple[Profile, str]] = [(p, dtype) for p in Profile if p not in LATER]
    wanted += [(context.profile_of(task), other) for other in task.dtypes[1:2]]
    uncompiled = {Profile.SMALL} if context.cuda is not None else set(Profile) - {Profile.DECLARED}
    return [
        evolve(
            record_request(task, context.oracle, profile, kind, profile not in uncompiled),
            decisive=stop_early and kind == dtype and profile in JUDGED,
        )
        for profile, kind in wanted
    ]


def keep_blobs(context: VerifierContext, recordings: Sequence[Recording], blobs: dict[str, bytes]) -> None:
    """Keep what running the plans takes: values that they carry, and where one is for a GPU their kernels' code."""
    both = (plan for recording in recordings for plan in (recording.plan, recording.first_plan))
    plans = [plan for plan in both if plan is not None]
    needed = {buffer.blob for plan in plans for buffer in plan.buffers}
    if context.keeps_code:
        needed |= {kernel.binary for plan in plans for kernel in plan.kernels}
    context.store.put_blobs({sha256: blob for sha256, blob in blobs.items() if sha256 in needed})
