"""A plan that runs twice: the same steps, the first time on other inputs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
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
from tritonrl.stages.checks.second_call import run_twice

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
