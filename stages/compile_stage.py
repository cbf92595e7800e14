"""Stage 2: the launch plan can be recorded, compiled for the target, and is valid.

The stage judges the recordings that every verifier needs: the declared, tiny and small sizes in the task's first
dtype. Recordings at larger sizes or in another dtype belong to the input variants that use them, and their failures
appear there (stage 4), so that a candidate with a hard-coded size fails the variant "larger" and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..core.candidate import Candidate, CompileReport, Failure, Recording, ReferenceSignature
from ..core.outcome import Outcome, Stage
from ..core.plan import BufferKind, LaunchPlan, Purity
from ..core.task import Profile
from ..core.verdict import StageResult, decide, skip
from .plan_validation import validate_plan

JUDGED = (Profile.DECLARED, Profile.TINY, Profile.SMALL)
"""The sizes whose recordings decide the stage."""


def judge_compile(candidate: Candidate) -> StageResult:
    """The compile stage's decision."""
    report = candidate.evidence.compile
    if report is None:
        return skip(Stage.COMPILE)
    return decide(Stage.COMPILE, find_compile_failure(report, candidate.purity), report.seconds)


def find_compile_failure(report: CompileReport, purity: Purity = "strict") -> Failure | None:
    """The first objection to the recordings that every verifier needs."""
    if report.failure is not None:
        return report.failure
    if not report.recordings:
        return Failure(Outcome.BROKEN_PROTOCOL, "no recording was returned")
    dtype = report.recordings[0].dtype
    for recording in report.recordings:
        if recording.dtype == dtype and recording.profile in JUDGED:
            failure = judge_recording(recording, report, purity)
            if failure is not None:
                return failure
    return None


def judge_recording(recording: Recording, report: CompileReport, purity: Purity = "strict") -> Failure | None:
    """Why one recording is no plan to run, or None; the reference's shapes hold for the declared one only.

    With the variant's other numbers or in a size of one, a result need not depend on what it depends on elsewhere,
    as the index of a minimum does not: there its values alone are judged.
    """
    if recording.failure is not None:
        return recording.failure
    if recording.plan is None:
        return Failure(Outcome.BROKEN_PROTOCOL, f"no plan for {recording.profile}")
    is_declared = recording.profile is Profile.DECLARED and recording.dtype == report.recordings[0].dtype
    failure = find_narrow_parameter(recording, report.reference) or validate_plan(
        recording.plan,
        report.reference if is_declared else None,
        used_inputs=() if recording.profile in (Profile.NUMBERS, Profile.INNER_ONE) else report.reference.used_inputs,
        purity=purity,
    )
    if failure is None or is_declared:
        return failure
    return Failure(failure.outcome, f"at {recording.profile} sizes: {failure.message}".rstrip(": "))


def find_recording(report: CompileReport, profile: Profile, dtype: str) -> Recording | None:
    """The recording for these sizes and this dtype."""
    return next((r for r in report.recordings if r.profile is profile and r.dtype == dtype), None)


def multiplies_narrowly(report: CompileReport) -> bool:
    """Whether a kernel of a float32 plan multiplies matrices of a narrower floating-point type.

    Such a product is as exact as one in TF32 for values near 1, which the tolerances admit, and has not its range.
    """
    plan = _float32_plan(report)
    return plan is not None and any(_is_narrow(name) for kernel in plan.kernels for name in kernel.dot_operands)


def cuts_to_tf32(report: CompileReport) -> bool:
    """Whether matrix units see TF32 of float32 values, and nothing in the plan has fewer digits than that.

    What is rounded further has not the digits that TF32's width is granted for, whatever else the plan multiplies.
    """
    if not report.recordings or report.recordings[0].plan is None:
        return False
    kernels = report.recordings[0].plan.kernels
    cuts = any(kernel.dot_precision == "tf32" and "f32" in kernel.dot_operands for kernel in kernels)
    return cuts and not any(map(_is_coarse, _narrow_names(report.recordings[0].plan)))


def _narrow_names(plan: LaunchPlan) -> Iterator[str]:
    """The element types, or dtypes, that values are rounded to in kernels, multiplied in, or kept in between."""
    for kernel in plan.kernels:
        yield from (*kernel.narrowed, *kernel.dot_operands)
    yield from (buffer.dtype for buffer in plan.buffers if buffer.kind is BufferKind.TEMPORARY)


def _is_coarse(name: str) -> bool:
    return name.startswith(("bf16", "bfloat16", "f8", "float8"))


def _is_narrow(name: str) -> bool:
    return _is_coarse(name) or name.startswith(("f16", "float16"))


def _float32_plan(report: CompileReport) -> LaunchPlan | None:
    """The first recording's plan, where that is in float32."""
    first = report.recordings[0] if report.recordings else None
    return first.plan if first is not None and first.dtype == "float32" else None


def narrows(report: CompileReport) -> bool:
    """Whether a float32 plan's values pass through a narrower floating-point type, in a kernel or in memory."""
    plan = _float32_plan(report)
    return plan is not None and any(map(_is_narrow, _narrow_names(plan)))


def places_by_floats(report: CompileReport) -> bool:
    """Whether a kernel has addresses or masks that go through a floating-point number, loaded values apart."""
    plans = (recording.plan for recording in report.recordings if recording.plan is not None)
    return any(kernel.places_by_floats for plan in plans for kernel in plan.kernels)


def find_narrow_parameter(recording: Recording, reference: ReferenceSignature) -> Failure | None:
    """A parameter of the reference that a float32 plan holds in a narrower type, which has not its range.

    Weights that are converted in forward are another matter: they are given in full, and the values decide.
    """
    if recording.plan is None or recording.dtype != "float32":
        return None
    for buffer in recording.plan.buffers:
        is_parameter = buffer.kind is BufferKind.PARAMETER and buffer.name in reference.parameters
        if is_parameter and _is_narrow(buffer.dtype):
            message = f"parameter {buffer.name} is {buffer.dtype}, the reference's is {recording.dtype}"
            return Failure(Outcome.WRONG_SIGNATURE, message)
    return None


def find_unseen_kernel(report: CompileReport) -> Failure | None:
    """A kernel that is launched at the declared sizes and at no others.

    Where these cannot be looked at, it would be compiled, timed and rewarded while nobody has seen what it computes.
    """
    seen: set[tuple[str, str]] = set()
    declared: set[tuple[str, str]] = set()
    for recording in report.recordings:
        if recording.plan is not None:
            kernels = [recording.plan.kernels[launch.kernel] for launch in recording.plan.launches]
            identities = {(kernel.qualname, kernel.source_sha256) for kernel in kernels}
            (declared if recording.profile is Profile.DECLARED else seen).update(identities)
    unseen = sorted(qualname for qualname, _ in declared - seen)
    if not unseen:
        return None
    message = f"{', '.join(unseen)} is launched at the declared sizes only, which this backend cannot run"
    return Failure(Outcome.UNSUPPORTED, message)


def find_unseen_operator(report: CompileReport) -> Failure | None:
    """An operator that PyTorch computes more often at the declared sizes than at any others.

    At purity "lenient" a plan could otherwise leave the work to PyTorch at the one size that is timed and not run.
    """
    counts = [
        (recording.profile, Counter(step.name for step in recording.plan.operators))
        for recording in report.recordings
        if recording.plan is not None
    ]
    declared: Counter[str] = sum((count for profile, count in counts if profile is Profile.DECLARED), Counter())
    for profile, count in counts:
        # of these only samples are run
        if profile not in (Profile.DECLARED, Profile.BETWEEN, Profile.WHOLE_BLOCKS):
            declared -= count
    if not declared:
        return None
    message = f"{', '.join(sorted(declared))}: more often at the declared sizes, which this backend does not run"
    return Failure(Outcome.UNSUPPORTED, message)
