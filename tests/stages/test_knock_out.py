"""Knock-out replay, the pure part: which plans need it, what is removed, and what the runs then mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.candidate import Failure
from tritonrl.core.outcome import Outcome
from tritonrl.core.plan import ArgumentKind, Copy, Fill, Launch, Operand, Operator
from tritonrl.stages.checks.knock_out import KnockOut, KnockOutReport, can_survive, fills_to_try, without_launches
from tritonrl.stages.run_stages import judge_full

from .evidence import candidate, comparison, launch, plan, run_report, view

FILL = Fill(target=view(1), value=0.0)
STEPS = st.lists(
    st.one_of(
        st.builds(launch, st.integers(0, 3), st.integers(1, 3)),
        st.builds(lambda t: Fill(target=view(t), value=0.0), st.integers(1, 3)),
        st.builds(lambda s, t: Copy(source=view(s), target=view(t)), st.integers(0, 3), st.integers(1, 3)),
    ),
    max_size=6,
)


@pytest.mark.parametrize(
    ("steps", "survives"),
    [
        ([launch(0, 1)], False),
        ([FILL, launch(0, 1)], True),
        ([Copy(source=view(0), target=view(1)), launch(1, 1)], True),
        ([launch(0, 2), Copy(source=view(2), target=view(1))], False),
        ([launch(0, 2), Fill(target=view(2), value=1.0), Copy(source=view(2), target=view(1)), launch(0, 1)], True),
        ([FILL], False),
    ],
    ids=["launch alone", "accumulator", "in place on a clone", "copied result", "filled and copied", "no launch"],
)
def test_only_results_that_something_else_reaches_can_survive(steps: list[object], survives: bool) -> None:
    """Memory that nothing but launches writes is NaN without them; fills and copies of known values are not."""
    assert can_survive(plan(*steps)) is survives


@given(STEPS)
def test_removal_leaves_every_other_step_in_place(steps: list[object]) -> None:
    """Without launches the rest is as it was."""
    whole = plan(*steps)
    assert without_launches(whole).steps == tuple(step for step in steps if not isinstance(step, Launch))


def test_a_result_that_is_right_without_kernels_on_every_input_is_refused() -> None:
    """Acceptance on all inputs is the objection; one input that shows a difference, or a failed run, is none."""
    right, wrong = run_report(), run_report(comparisons=(comparison(relative_error=0.5, worst_excess=0.5),))
    failed = run_report(failure=Failure(outcome=Outcome.RUN_FAILED), comparisons=())
    harmless = tuple(KnockOut(reports=reports) for reports in ((), (right, wrong), (right, failed)))
    assert judge_full(candidate(reports={"knock_out": KnockOutReport(knock_outs=harmless)})).passed
    result = judge_full(
        candidate(
            reports={"knock_out": KnockOutReport(knock_outs=(*harmless, KnockOut(reports=(right, right), fill=1.0)))}
        )
    )
    assert (result.outcome, result.message) == (
        Outcome.KERNEL_IRRELEVANT,
        "with 1 in the place of what they write",
    )


def test_a_wrong_result_is_called_wrong_first() -> None:
    """Where a variant fails, that is the outcome, whatever is left without the launches."""
    wrong = run_report(comparisons=(comparison(relative_error=0.5, worst_excess=0.5),))
    assert (
        judge_full(
            candidate(
                runs=(wrong,), reports={"knock_out": KnockOutReport(knock_outs=(KnockOut(reports=(run_report(),)),))}
            )
        ).outcome
        is Outcome.WRONG_VALUES
    )


def test_beside_operators_numbers_are_tried_in_the_place_of_nan() -> None:
    """Where PyTorch computes, unwritten memory is zero and one in turn, before anything else happens."""
    both = Operator(
        name="mul.Tensor",
        operands=tuple(Operand(kind=ArgumentKind.VIEW, view=view(index)) for index in (0, 2)),
        outputs=(view(1),),
    )
    whole = plan(launch(0, 2), both)
    assert fills_to_try(whole) == (None, 0.0, 1.0)
    assert fills_to_try(plan(launch(0, 1))) == ()
    first, *_, last = without_launches(whole, 1.0).steps
    assert isinstance(first, Fill)
    assert (first.value, first.target.buffer, last) == (1.0, 1, both)
