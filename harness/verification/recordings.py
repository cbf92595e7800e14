"""The probe of the compile stage: which passes are recorded, which of them compiled, and what is kept of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attrs import evolve

from ...core.candidate import Candidate, CompileReport, Failure, Recording, Variant
from ...core.outcome import Outcome
from ...core.plan import Buffer, BufferKind, LaunchPlan
from ...core.task import Profile, Task
from ...stages.compile_stage import JUDGED
from ...stages.variants import VariantInputs
from ..sandbox.protocol import RecordRequest
from .oracle import Oracle
from .workbench import Workbench

_ASSEMBLER_KILLED = re.compile(r"`ptxas` failed with error code -(9|24)\b")
"""As Triton says it of one that SIGKILL or SIGXCPU ended."""
_LATER = (Profile.REMAINDER, Profile.BETWEEN, Profile.BEYOND)
"""Sizes that only the audit records."""


def probe_compile(candidate: Candidate, task: Task, bench: Workbench, staged: bool = False) -> Candidate:
    """Record every plan that any verifier needs, and compile those whose code is wanted, in one child.

    Staged, recording ends where it decides the stage; such a report is kept apart from complete ones.
    """
    key = bench.key(candidate, task, "compile")
    report = bench.store.get(key, CompileReport)
    stopped_key = bench.key(candidate, task, "compile:stopped")
    if report is None and staged:
        report = bench.store.get(stopped_key, CompileReport)
    if report is None:
        bench.get_ready()
        requests = _record_requests(task, bench, staged)
        reply = bench.sandbox.record(candidate.source, requests)
        report = CompileReport(
            recordings=reply.recordings,
            reference=bench.oracle.signature(task),
            seconds=reply.seconds,
            failure=reply.failure,
        )
        keep_blobs(bench, report.recordings, reply.blobs)
        is_complete = reply.failure is not None or len(reply.recordings) == len(requests)
        bench.store.put(key if is_complete else stopped_key, report)
    return candidate.with_evidence(compile=report)


def record_later(candidate: Candidate, task: Task, bench: Workbench, inputs: VariantInputs) -> Recording:
    """The recording at sizes that only the audit uses, all of them in a child of their own.

    So no other verifier pays for them.
    """
    key = bench.key(candidate, task, f"compile:{inputs.variant}")
    recording = bench.store.get(key, Recording)
    if recording is not None:
        return recording
    together = [inputs]
    others = [bench.describe(Variant.REMAINDER, task)] if bench.oracle.remainder(task) else []
    others += later_variants(task, bench)
    together += [other for other in others if other.variant is not inputs.variant]
    is_compiled = bench.cuda is not None
    requests = [record_request(task, bench.oracle, each.profile, each.dtype, is_compiled) for each in together]
    recordings = _record_together(candidate, bench, requests)
    if is_compiled and len(requests) > 1 and all(_is_out_of_time(recording.failure) for recording in recordings):
        # the compilation of one may have used up the time of all
        recordings = [_record_together(candidate, bench, [request])[0] for request in requests]
    for each, recording in zip(together, recordings, strict=True):
        bench.store.put(bench.key(candidate, task, f"compile:{each.variant}"), recording)
    return recordings[0]


def _record_together(candidate: Candidate, bench: Workbench, requests: Sequence[RecordRequest]) -> list[Recording]:
    bench.get_ready()
    reply = bench.sandbox.record(candidate.source, requests)
    if reply.failure is not None:
        return [Recording(profile=each.profile, dtype=each.dtype, failure=reply.failure) for each in requests]
    keep_blobs(bench, reply.recordings, reply.blobs)
    return list(reply.recordings)


def find_uncompiled(candidate: Candidate, task: Task, bench: Workbench) -> list[VariantInputs]:
    """The variants at sizes that nobody declared whose code takes longer to compile than there is time.

    A kernel that takes whole rows has larger blocks there. A GPU cannot run them, and the interpreter samples them.
    """
    compiled = candidate.evidence.compile
    if bench.cuda is None or compiled is None or compiled.failure is not None:
        return []
    later = later_variants(task, bench)
    return [each for each in later if _is_out_of_time(record_later(candidate, task, bench, each).failure)]


def _is_out_of_time(failure: Failure | None) -> bool:
    """Whether recording ended at a limit of time: the child's, or that of the assembler that it had started."""
    if failure is None:
        return False
    return failure.outcome is Outcome.TIMEOUT or bool(_ASSEMBLER_KILLED.search(failure.message))


def later_variants(task: Task, bench: Workbench) -> list[VariantInputs]:
    """The variants at large sizes that no compile report has; a GPU runs the declared ones in both dtypes anyway."""
    variants = []
    if len(task.dtypes) > 1 and bench.cuda is None:
        variants.append(Variant.DECLARED_PRECISION)
    if bench.oracle.between(task):
        variants.append(Variant.BETWEEN)
    if bench.oracle.beyond(task):
        variants.append(Variant.BEYOND)
    return [bench.describe(variant, task) for variant in variants]


def record_own_values(candidate: Candidate, task: Task, bench: Workbench, recording: Recording) -> Recording:
    """The declared recording with the values that the reference has not, which only running it needs.

    It is made in a child of its own, and must be the same plan.
    """
    plan = recording.plan
    if plan is None or not has_own_values(recording, task, bench):
        return recording
    key = bench.key(candidate, task, f"compile:values:{recording.dtype}")
    found = bench.store.get(key, Recording)
    if found is None:
        is_compiled = plan.target is not None
        request = record_request(task, bench.oracle, recording.profile, recording.dtype, is_compiled)
        bench.get_ready()
        reply = bench.sandbox.record(candidate.source, [evolve(request, with_values=True)])
        failure = reply.failure
        found = reply.recordings[0] if failure is None else evolve(recording, plan=None, failure=failure)
        if found.plan is not None and _without_values(found.plan) != _without_values(plan):
            failure = Failure(outcome=Outcome.NOT_REPRODUCIBLE, message="another plan at the declared sizes")
            found = evolve(recording, plan=None, failure=failure)
        keep_blobs(bench, [found], reply.blobs)
        bench.store.put(key, found)
    return found


def has_own_values(recording: Recording, task: Task, bench: Workbench) -> bool:
    """Whether the plan starts from values that the host code made, and the reference has not."""
    known = bench.oracle.signature(task).parameters
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
    )


def _record_requests(task: Task, bench: Workbench, staged: bool) -> list[RecordRequest]:
    """One for each profile, and one in the contract's second dtype; on a GPU what is run is compiled too."""
    dtype = task.dtypes[0]
    wanted: list[tuple[Profile, str]] = [(p, dtype) for p in Profile if p not in _LATER]
    wanted += [(bench.profile, other) for other in task.dtypes[1:2]]
    uncompiled = {Profile.SMALL} if bench.cuda is not None else set(Profile) - {Profile.DECLARED}
    return [
        evolve(
            record_request(task, bench.oracle, profile, kind, profile not in uncompiled),
            decisive=staged and kind == dtype and profile in JUDGED,
        )
        for profile, kind in wanted
    ]


def keep_blobs(bench: Workbench, recordings: Sequence[Recording], blobs: dict[str, bytes]) -> None:
    """Keep what running the plans takes: values that they carry, and where one is for a GPU their kernels' code."""
    both = (plan for recording in recordings for plan in (recording.plan, recording.first_plan))
    plans = [plan for plan in both if plan is not None]
    needed = {buffer.blob for plan in plans for buffer in plan.buffers}
    if bench.keeps_code:
        needed |= {kernel.binary for plan in plans for kernel in plan.kernels}
    bench.store.put_blobs({sha256: blob for sha256, blob in blobs.items() if sha256 in needed})
