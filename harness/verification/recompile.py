"""The probe that compiles the declared plan's kernels once more, where no host code changes what the compiler sees."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import fields_dict

from ...core.candidate import Candidate, Failure, RecompileReport
from ...core.outcome import Outcome
from ...core.plan import Kernel, LaunchPlan
from ...core.task import Profile, Task
from ...stages.compile_stage import find_recording
from .workbench import Workbench


def probe_recompile(candidate: Candidate, task: Task, bench: Workbench) -> Candidate:
    """Compare the plan's kernels with what a clean child makes of their text."""
    report = candidate.evidence.compile
    recording = find_recording(report, Profile.DECLARED, task.dtypes[0]) if report is not None else None
    if recording is None or recording.plan is None:
        return candidate
    plan = recording.plan
    key = bench.key(candidate, task, "recompile")
    found = bench.store.get(key, RecompileReport)
    if found is None:
        bench.get_ready()
        reply = bench.sandbox.recompile(candidate.source, plan)
        failure = reply.failure or find_difference(plan, reply.kernels)
        found = RecompileReport(seconds=reply.seconds, failure=failure)
        bench.store.put(key, found)
    return candidate.with_evidence(recompile=found)


def find_difference(plan: LaunchPlan, kernels: Sequence[Kernel]) -> Failure | None:
    """Where the plan's record of a launch's kernel is not what its text compiles to.

    The whole record counts, not the code alone: the audit and the clock believe what it says of reads, writes and
    resources, and host code runs beside the process that wrote it.
    """
    if len(kernels) != len(plan.launches):
        return Failure(outcome=Outcome.BROKEN_PROTOCOL, message="not as many kernels as the plan launches")
    differing = {}
    for launch, made in zip(plan.launches, kernels, strict=True):
        recorded = plan.kernels[launch.kernel]
        names = [name for name in fields_dict(Kernel) if getattr(recorded, name) != getattr(made, name)]
        passed = {argument.name for argument in launch.arguments if not argument.constexpr}
        if not names and passed != {name for name, _ in made.signature}:
            names = ["arguments"]
        if names:
            differing[recorded.qualname] = f"{recorded.qualname} ({', '.join(names)})"
    return Failure(outcome=Outcome.DISGUISED, message=", ".join(sorted(differing.values()))) if differing else None
