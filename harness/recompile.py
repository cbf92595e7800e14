"""The probe that compiles the declared plan's kernels once more, where no host code changes what the compiler sees."""

from __future__ import annotations

from ..core.candidate import Candidate, Failure, RecompileReport
from ..core.outcome import Outcome
from ..core.task import Profile, Task
from ..stages.compile_stage import find_recording
from .bench import Bench


def probe_recompile(candidate: Candidate, task: Task, bench: Bench) -> Candidate:
    """Compare the plan's code with what a clean child makes of the kernels' text."""
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
        failure = reply.failure
        wanted = tuple(plan.kernels[launch.kernel].binary for launch in plan.launches)
        if failure is None and reply.binaries != wanted:
            names = sorted({plan.kernels[launch.kernel].qualname for launch in plan.launches})
            failure = Failure(outcome=Outcome.DISGUISED, message=", ".join(names))
        found = RecompileReport(seconds=reply.seconds, failure=failure)
        bench.store.put(key, found)
    return candidate.with_evidence(recompile=found)
