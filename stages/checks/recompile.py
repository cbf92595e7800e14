"""Whether a plan's kernels are what their text compiles to where no host code runs.

Without a GPU that is asked of the declared plan, last. Where code will be loaded all of it is made so: the child that
runs host code stops at the GPU IR, and what a clean one makes of the same IR is run.

The whole record of a kernel counts, not its code alone: the audit and the timing believe what it says of reads, writes
and resources, and host code runs beside the process that wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, fields_dict, frozen

from ...core.candidate import Candidate, Failure
from ...core.outcome import Outcome
from ...core.plan import Kernel, LaunchPlan
from ...core.task import Profile, Task
from ..compile_stage import find_recording


@frozen(kw_only=True)
class RecompileReport:
    """The second compilation: what it took, and how its kernels differ from the recorded ones, if they do."""

    seconds: float
    failure: Failure | None = None


def find_declared_plan(candidate: Candidate, task: Task) -> LaunchPlan | None:
    """Returns the plan at the declared sizes in the task's first dtype, or None."""
    report = candidate.evidence.compile
    recording = find_recording(report, Profile.DECLARED, task.dtypes[0]) if report is not None else None
    return None if recording is None else recording.plan


def judge(report: RecompileReport) -> Failure | None:
    """Returns the difference that was found, or None."""
    return report.failure


def find_difference(plan: LaunchPlan, kernels: Sequence[Kernel]) -> Failure | None:
    """Compare a plan's kernels, launch by launch, with those that a clean process compiled."""
    if len(kernels) != len(plan.launches):
        return Failure(Outcome.BROKEN_PROTOCOL, "not as many kernels as the plan launches")
    differing = {}
    for launch, made in zip(plan.launches, kernels, strict=True):
        recorded = plan.kernels[launch.kernel]
        names = [name for name in fields_dict(Kernel) if getattr(recorded, name) != getattr(made, name)]
        passed = {argument.name for argument in launch.arguments if not argument.constexpr}
        if not names and passed != {name for name, _ in made.signature}:
            names = ["arguments"]
        if names:
            differing[recorded.qualname] = f"{recorded.qualname} ({', '.join(names)})"
    return Failure(Outcome.DISGUISED, ", ".join(sorted(differing.values()))) if differing else None


def give_code(plan: LaunchPlan, kernels: Sequence[Kernel], gpu_ir: Sequence[str]) -> LaunchPlan | Failure:
    """Return the plan with the code of its launches as a clean process made it, if it is of the recorded GPU IR.

    `gpu_ir` has its hashes, which are what was recorded in the code's place.
    """
    failure = find_difference(plan, [evolve(each, binary=ir) for each, ir in zip(kernels, gpu_ir, strict=False)])
    if failure is not None:
        return failure
    made = dict(zip((launch.kernel for launch in plan.launches), kernels, strict=True))
    if any(made[launch.kernel] != each for launch, each in zip(plan.launches, kernels, strict=True)):
        return Failure(Outcome.BROKEN_PROTOCOL, "one GPU IR has two codes")
    return evolve(plan, kernels=tuple(made.get(index, kernel) for index, kernel in enumerate(plan.kernels)))
