"""The compile stage and the validation of plans: launches must do the work, and an untrusted plan must make sense."""

from __future__ import annotations

import math

import pytest
from attrs import evolve
from tritonrl.core.candidate import CompileReport, Recording, ReferenceSignature
from tritonrl.core.outcome import Outcome, Stage
from tritonrl.core.plan import Buffer, BufferKind, Copy, Fill, Kernel, Launch, LaunchPlan
from tritonrl.core.task import Profile
from tritonrl.stages.compile_stage import cuts_to_tf32, judge_recording
from tritonrl.stages.funnel import fold
from tritonrl.stages.plan_validation import validate_plan
from tritonrl.stages.roofline import GPUS, estimate_plan_us

from .evidence import GOOD_PLAN, KERNEL, SIGNATURE, buffer, candidate, compile_report, launch, plan, recording, view

TF32 = {"dot_precision": "tf32", "dot_operands": ("f32",)}


def outcome(subject: LaunchPlan, reference: ReferenceSignature = SIGNATURE) -> Outcome:
    """What validation says of a plan."""
    failure = validate_plan(subject, reference)
    return Outcome.PASSED if failure is None else failure.outcome


@pytest.mark.parametrize(
    "steps",
    [
        [launch(0, 1)],
        [launch(0, 2), launch(2, 1)],
        [launch(0, 2), Copy(source=view(2), target=view(1))],
        [Copy(source=view(0), target=view(2)), launch(2, 1)],
        [Fill(target=view(1), value=0.0), launch(0, 1)],
    ],
)
def test_work_done_by_launches_passes(steps: list[object]) -> None:
    """Chains of launches, and copies and fills around them, are genuine."""
    assert outcome(plan(*steps)) is Outcome.PASSED


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (plan(), Outcome.NO_LAUNCH),
        (plan(launch(0, 1), arithmetic=("mul",)), Outcome.TORCH_ARITHMETIC),
        (plan(launch(0, 2)), Outcome.OUTPUT_NOT_WRITTEN),
        (plan(launch(0, 1), output=0), Outcome.OUTPUT_NOT_WRITTEN),
        (plan(launch(0, 2), Copy(source=view(0), target=view(1))), Outcome.OUTPUT_NOT_WRITTEN),
        (plan(launch(0, 1), Copy(source=view(0), target=view(1))), Outcome.OUTPUT_NOT_WRITTEN),
        (plan(launch(0, 1), Fill(target=view(1), value=0.0)), Outcome.OUTPUT_NOT_WRITTEN),
        (plan(launch(2, 1)), Outcome.INPUT_UNUSED),
        (plan(launch(0, 2), launch(3, 1)), Outcome.INPUT_UNUSED),
    ],
)
def test_work_not_done_by_launches_is_named(subject: LaunchPlan, expected: Outcome) -> None:
    """A returned tensor that no launch wrote, or that no launch fed from the input, is refused."""
    assert outcome(subject) is expected


def test_a_batch_of_one_need_not_depend_on_its_inputs() -> None:
    """The index of its minimum is 0, and a compiler leaves out the load."""
    idle = recording(Profile.NUMBERS, plan=plan(launch(2, 1)))
    assert judge_recording(idle, compile_report(idle)) is None
    small = evolve(idle, profile=Profile.SMALL)
    failure = judge_recording(small, compile_report(small))
    assert failure is not None
    assert failure.outcome is Outcome.INPUT_UNUSED


def test_an_ignored_second_input_is_refused() -> None:
    """Each input that the reference uses must reach the result; one that it ignores need not."""
    two = evolve(GOOD_PLAN, buffers=(*GOOD_PLAN.buffers, buffer(BufferKind.INPUT, "1")))
    assert outcome(two, evolve(SIGNATURE, used_inputs=(0, 1))) is Outcome.INPUT_UNUSED
    assert outcome(two, evolve(SIGNATURE, used_inputs=(0,))) is Outcome.PASSED


@pytest.mark.parametrize("changes", [{"shapes": ((5,),)}, {"dtypes": ("float16",)}, {"shapes": (), "dtypes": ()}])
def test_another_signature_is_refused(changes: dict[str, object]) -> None:
    """Shapes, dtypes and number of results are the reference's."""
    assert outcome(GOOD_PLAN, evolve(SIGNATURE, **changes)) is Outcome.WRONG_SIGNATURE


@pytest.mark.parametrize(
    "steps",
    [
        [launch(0, 1), launch(1, 0)],
        [launch(0, 1), Copy(source=view(1), target=view(0))],
        [launch(0, 1), Fill(target=view(0), value=0.0)],
        [Copy(source=view(0), target=view(2)), launch(0, 1), launch(1, 0), Copy(source=view(2), target=view(0))],
    ],
)
def test_a_step_that_stores_to_what_was_given_is_refused(steps: list[object]) -> None:
    """An input is no memory of the candidate's, even where a later step restores it."""
    assert outcome(plan(*steps)) is Outcome.INPUT_MUTATED


def test_an_uncompiled_kernel_is_given_the_benefit_of_the_doubt() -> None:
    """Without compilation nobody knows what a kernel reads, so any argument may be read and written."""
    unknown = Kernel(qualname="kernel", source_sha256="0" * 64)
    assert outcome(evolve(GOOD_PLAN, kernels=(unknown,))) is Outcome.PASSED


def test_a_kernel_that_only_reads_writes_nothing() -> None:
    """A compiled kernel with no store does not count as the writer of its arguments."""
    assert outcome(evolve(GOOD_PLAN, kernels=(evolve(KERNEL, writes=()),))) is Outcome.OUTPUT_NOT_WRITTEN


def with_view(**changes: object) -> LaunchPlan:
    """The good plan, with a copy to a view that claims other extents."""
    return plan(launch(0, 1), Copy(source=view(0), target=evolve(view(1), **changes)))


FORGED = [
    with_view(shape=(2**48,)),
    with_view(shape=(2**47, 2**47), stride=(1, 1)),
    with_view(shape=(0, *[2**40] * 40), stride=(0, *[1] * 40)),
    with_view(shape=(1,) * 1000, stride=(1,) * 1000),
    with_view(offset=10**400),
    with_view(stride=(10**400,)),
    with_view(stride=(-(10**400),)),
    plan(launch(0, 1, grid=10**400)),
    evolve(GOOD_PLAN, buffers=(buffer(BufferKind.INPUT, "0", 10**400), *GOOD_PLAN.buffers[1:])),
    evolve(GOOD_PLAN, kernels=(evolve(KERNEL, shared_bytes=10**400),)),
]


@pytest.mark.parametrize("forged", FORGED)
@pytest.mark.parametrize("staged", [True, False])
def test_numbers_that_no_gpu_has_do_not_reach_the_judges_arithmetic(forged: LaunchPlan, staged: bool) -> None:
    """A plan with huge integers folds to a broken protocol."""
    subject = candidate(compile=compile_report(recording(Profile.DECLARED, plan=forged)))
    verdict = fold(subject, staged)
    assert (verdict.reached, verdict.outcome) == (Stage.COMPILE, Outcome.BROKEN_PROTOCOL)


def test_the_largest_numbers_that_pass_have_an_estimate() -> None:
    """What validation lets through, the simulated timing can add up."""
    largest = with_view(shape=(2**48 - 1,), stride=(2**48 - 1,), offset=2**48 - 1)
    grid = (2**31 - 1, 65535, 65535)
    largest = evolve(largest, steps=tuple(evolve(s, grid=grid) if isinstance(s, Launch) else s for s in largest.steps))
    assert outcome(largest) is not Outcome.BROKEN_PROTOCOL
    assert math.isfinite(estimate_plan_us(largest, 10**15, GPUS["h200"]))


@pytest.mark.parametrize(
    "subject",
    [
        plan(launch(0, 1, kernel=1)),
        plan(launch(0, 1, kernel=-1)),
        plan(launch(0, 9)),
        plan(launch(0, 1), output=-1),
        plan(launch(0, 1, grid=-1)),
        plan(launch(0, 1), Copy(source=view(7), target=view(1))),
        evolve(GOOD_PLAN, outputs=(evolve(view(1), stride=()),)),
        evolve(GOOD_PLAN, outputs=(evolve(view(1), shape=(-4,)),)),
        evolve(GOOD_PLAN, buffers=(buffer(BufferKind.INPUT, "x"), *GOOD_PLAN.buffers[1:])),
        evolve(GOOD_PLAN, buffers=(buffer(BufferKind.INPUT, "0", -1), *GOOD_PLAN.buffers[1:])),
        evolve(GOOD_PLAN, buffers=(buffer(BufferKind.INPUT, "9" * 5000), *GOOD_PLAN.buffers[1:])),
        evolve(GOOD_PLAN, buffers=(evolve(GOOD_PLAN.buffers[0], blob="\ud800"), *GOOD_PLAN.buffers[1:])),
        evolve(GOOD_PLAN, kernels=(evolve(KERNEL, num_warps=0),)),
        *FORGED,
    ],
)
def test_a_senseless_plan_is_a_broken_protocol(subject: LaunchPlan) -> None:
    """A forged plan is an outcome, never an exception in the judge."""
    assert outcome(subject) is Outcome.BROKEN_PROTOCOL


def _report(kernels: list[dict[str, object]], kept: str = "float32") -> CompileReport:
    plan = LaunchPlan(
        buffers=(Buffer(kind=BufferKind.TEMPORARY, name="", dtype=kept, num_elements=1),),
        kernels=tuple(
            Kernel(qualname="kernel", source_sha256="", **words)  # type: ignore[arg-type]
            for words in kernels
        ),
        steps=(),
        outputs=(),
    )
    signature = ReferenceSignature(shapes=((1,),), dtypes=("float32",), used_inputs=(0,), parameters=())
    recording = Recording(profile=Profile.DECLARED, dtype="float32", plan=plan)
    return CompileReport(recordings=(recording,), reference=signature, seconds=0.0)


@pytest.mark.parametrize(
    ("kernels", "kept", "is_cut"),
    [
        ([TF32], "float32", True),
        ([TF32, {"narrowed": ("f16",)}], "float16", True),
        ([TF32, {"narrowed": ("bf16",)}], "float32", False),
        ([{"dot_precision": "tf32", "dot_operands": ("bf16", "f32")}], "float32", False),
        ([TF32, {"dot_operands": ("f8E4M3FN",)}], "float32", False),
        ([TF32], "bfloat16", False),
        ([{"dot_precision": "ieee", "dot_operands": ("f32",)}], "float32", False),
    ],
)
def test_a_plan_is_cut_to_tf32_and_no_further(kernels: list[dict[str, object]], kept: str, is_cut: bool) -> None:
    """Half precision has TF32's digits; bfloat16 and eight bits, multiplied or kept in memory, have not."""
    assert cuts_to_tf32(_report(kernels, kept)) is is_cut
