"""The report that most checks give: some runs, each compared with the oracle; and the plan of a second call.

Memory that a kernel asks for anew is the last call's as often as not. A kernel that finds its own result there, and
leaves it or copies it, is right once; in a benchmark it is quick, and on other inputs it is wrong. So the same steps
run on other inputs first, and then on those that count, with everything between left where it lies (`run_twice`).
"""

from __future__ import annotations

from attrs import evolve, frozen

from ...core.candidate import Failure, RunReport
from ...core.plan import Argument, BufferKind, Copy, Fill, Launch, LaunchPlan, Operand, Operator, Step, View
from ..judge_run import judge_run
from ..variants import ROWS


@frozen(kw_only=True)
class RunsReport:
    """Executions of plans, in the order in which they are judged."""

    runs: tuple[RunReport, ...]

    @property
    def seconds(self) -> float:
        """Returns the seconds of all runs."""
        return sum(run.seconds for run in self.runs)


def judge_runs(report: RunsReport, label: str = "variant") -> Failure | None:
    """Returns the first objection to a run, named by `label` and the run's variant, or None."""
    for run in report.runs:
        failure = judge_run(run)
        if failure is not None:
            sizes = f", {run.sizes}" if run.sizes else ""
            told = f"{label} {run.variant}{sizes}: {failure.message}".rstrip(": ")
            return Failure(failure.outcome, told + ROWS[run.variant].advice)
    return None


def run_twice(plan: LaunchPlan) -> tuple[LaunchPlan, dict[int, int]]:
    """Return the plan with its steps twice, and for each input's buffer the one that the first time reads instead."""
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
