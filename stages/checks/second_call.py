"""A plan whose forward pass runs twice, as data.

Memory that a kernel asks for anew is the last call's as often as not. A kernel that finds its own result there, and
leaves it or copies it, is right once; in a benchmark it is quick, and on other inputs it is wrong. So the same steps
run on other inputs first, and then on those that count, with everything between left where it lies.
"""

from __future__ import annotations

from attrs import evolve

from ...core.plan import Argument, BufferKind, Copy, Fill, Launch, LaunchPlan, Operand, Operator, Step, View


def run_twice(plan: LaunchPlan) -> tuple[LaunchPlan, dict[int, int]]:
    """The plan with its steps twice, and for each input's buffer the one that the first time reads instead."""
    inputs = [index for index, buffer in enumerate(plan.buffers) if buffer.kind is BufferKind.INPUT]
    others = {index: len(plan.buffers) + number for number, index in enumerate(inputs)}
    buffers = (*plan.buffers, *(plan.buffers[index] for index in inputs))
    first = tuple(_redirect(step, others) for step in plan.steps)
    # a plan names each operator that computes as often as it has a step
    return evolve(plan, buffers=buffers, steps=(*first, *plan.steps), arithmetic=plan.arithmetic * 2), others


def _redirect(step: Step, others: dict[int, int]) -> Step:
    def view(one: View) -> View:
        return evolve(one, buffer=others.get(one.buffer, one.buffer))

    def argument(one: Argument) -> Argument:
        return one if one.view is None else evolve(one, view=view(one.view))

    def operand(one: Operand) -> Operand:
        return evolve(
            one, view=None if one.view is None else view(one.view), items=tuple(operand(item) for item in one.items)
        )

    match step:
        case Launch():
            return evolve(step, arguments=tuple(argument(one) for one in step.arguments))
        case Fill():
            return evolve(step, target=view(step.target))
        case Copy():
            return evolve(step, source=view(step.source), target=view(step.target))
        case Operator():
            return evolve(
                step,
                operands=tuple(operand(one) for one in step.operands),
                outputs=tuple(view(one) for one in step.outputs),
            )
