"""The plan audit: launches must do the work, and a plan from an untrusted process must make sense."""

from __future__ import annotations

import pytest
from attrs import evolve
from tritonrl.core.candidate import ReferenceSignature
from tritonrl.core.outcome import Outcome
from tritonrl.core.plan import BufferKind, Copy, Fill, Kernel, LaunchPlan
from tritonrl.stages.plan_audit import audit

from .evidence import GOOD_PLAN, KERNEL, SIGNATURE, buffer, launch, plan, view


def outcome(subject: LaunchPlan, reference: ReferenceSignature = SIGNATURE) -> Outcome:
    """What the audit says of a plan."""
    failure = audit(subject, reference)
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


def test_an_ignored_second_input_is_refused() -> None:
    """Each input that the reference uses must reach the result; one that it ignores need not."""
    two = evolve(GOOD_PLAN, buffers=(*GOOD_PLAN.buffers, buffer(BufferKind.INPUT, "1")))
    assert outcome(two, evolve(SIGNATURE, used_inputs=(0, 1))) is Outcome.INPUT_UNUSED
    assert outcome(two, evolve(SIGNATURE, used_inputs=(0,))) is Outcome.PASSED


@pytest.mark.parametrize("changes", [{"shapes": ((5,),)}, {"dtypes": ("float16",)}, {"shapes": (), "dtypes": ()}])
def test_another_signature_is_refused(changes: dict[str, object]) -> None:
    """Shapes, dtypes and number of results are the reference's."""
    assert outcome(GOOD_PLAN, evolve(SIGNATURE, **changes)) is Outcome.WRONG_SIGNATURE


def test_an_uncompiled_kernel_is_given_the_benefit_of_the_doubt() -> None:
    """Without compilation nobody knows what a kernel reads, so any argument may be read and written."""
    unknown = Kernel(qualname="kernel", source_sha256="0" * 64)
    assert outcome(evolve(GOOD_PLAN, kernels=(unknown,))) is Outcome.PASSED


def test_a_kernel_that_only_reads_writes_nothing() -> None:
    """A compiled kernel with no store does not count as the writer of its arguments."""
    assert outcome(evolve(GOOD_PLAN, kernels=(evolve(KERNEL, writes=()),))) is Outcome.OUTPUT_NOT_WRITTEN


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
        evolve(GOOD_PLAN, kernels=(evolve(KERNEL, num_warps=0),)),
    ],
)
def test_a_senseless_plan_is_a_broken_protocol(subject: LaunchPlan) -> None:
    """A forged plan is an outcome, never an exception in the judge."""
    assert outcome(subject) is Outcome.BROKEN_PROTOCOL
