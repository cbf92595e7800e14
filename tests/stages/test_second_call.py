"""A plan that runs again: the same steps, first on other inputs; and without its launches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.candidate import Failure
from tritonrl.core.outcome import Outcome
from tritonrl.core.plan import (
    Argument,
    ArgumentKind,
    Buffer,
    BufferKind,
    Copy,
    Fill,
    Launch,
    LaunchPlan,
    Operand,
    Operator,
    Step,
    View,
)
from tritonrl.stages.checks.knock_out import KnockOut, KnockOutReport, can_survive, fills_to_try, without_launches
from tritonrl.stages.checks.runs import run_twice
from tritonrl.stages.funnel import judge_full

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
KINDS = list(BufferKind)


def view(buffer: int) -> View:
    """All four elements of a buffer."""
    return View(buffer=buffer, offset=0, shape=(4,), stride=(1,), dtype="float32")


@st.composite
def plans(draw: st.DrawFn) -> LaunchPlan:
    """Plans of any steps over a few buffers of any kinds."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5))
    buffers = tuple(
        Buffer(kind=kind, name=str(number), dtype="float32", num_elements=4) for number, kind in enumerate(kinds)
    )
    index = st.integers(0, len(kinds) - 1)

    def argument(at: int) -> Argument:
        return Argument(name=f"p{at}", kind=ArgumentKind.VIEW, view=view(at))

    def operand(at: int) -> Operand:
        return Operand(kind=ArgumentKind.VIEW, view=view(at))

    launches = st.lists(index, max_size=3).map(
        lambda at: Launch(kernel=0, grid=(1, 1, 1), arguments=tuple(map(argument, at)))
    )
    copies = st.tuples(index, index).map(lambda at: Copy(source=view(at[0]), target=view(at[1])))
    fills = index.map(lambda at: Fill(target=view(at), value=0.0))
    operators = st.tuples(index, index).map(
        lambda at: Operator(name="add.Tensor", operands=(operand(at[0]),), outputs=(view(at[1]),))
    )
    steps: list[Step] = draw(st.lists(st.one_of(launches, copies, fills, operators), max_size=5))
    arithmetic = tuple(step.name for step in steps if isinstance(step, Operator))
    return LaunchPlan(buffers=buffers, kernels=(), steps=tuple(steps), outputs=(view(0),), arithmetic=arithmetic)


def mentioned(step: Step) -> list[int]:
    """The buffers that a step names, in order."""
    match step:
        case Launch():
            return [argument.view.buffer for argument in step.arguments if argument.view is not None]
        case Fill():
            return [step.target.buffer]
        case Copy():
            return [step.source.buffer, step.target.buffer]
    return [*(one.buffer for one in step.inputs), *(one.buffer for one in step.outputs)]


@given(plans())
def test_the_second_time_is_the_plan_itself(plan: LaunchPlan) -> None:
    """Nothing but the first time's inputs is added: the later steps, the buffers before and the results stay."""
    twice, others = run_twice(plan)
    assert twice.steps[len(plan.steps) :] == plan.steps
    assert len(twice.steps) == 2 * len(plan.steps)
    assert twice.outputs == plan.outputs
    assert twice.buffers[: len(plan.buffers)] == plan.buffers
    assert [twice.buffers[copy] for copy in others.values()] == [plan.buffers[index] for index in others]


@given(plans())
def test_the_first_time_reads_other_inputs_and_shares_all_else(plan: LaunchPlan) -> None:
    """Each mention of an input is one of its copy, and no other mention changes."""
    twice, others = run_twice(plan)
    inputs = {index for index, buffer in enumerate(plan.buffers) if buffer.kind is BufferKind.INPUT}
    assert set(others) == inputs
    for before, after in zip(plan.steps, twice.steps, strict=False):
        assert mentioned(after) == [others.get(index, index) for index in mentioned(before)]


@given(plans())
def test_operators_are_named_as_often_as_they_compute(plan: LaunchPlan) -> None:
    """What every backend compares, to know that a plan holds all that computes, stays equal."""
    twice, _ = run_twice(plan)
    assert twice.arithmetic == tuple(step.name for step in twice.operators)


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
