"""Replay with launches removed: does the result need the kernels at all?

Where every returned element comes out of memory that only a launch has written, the answer is known without a run: the
rest of the plan leaves NaN there. It is not known where fills, copies or PyTorch operators reach the result, as with a
zero-filled accumulator, a clone that is worked on in place, or, at purity "lenient", PyTorch doing the work beside a
launch for show. Such a plan is run once more without its launches on several inputs, and where that is accepted on all
of them, the kernels are irrelevant. Beside PyTorch's operators NaN proves too little: `torch.relu(x) + 0 * shown` is
spoilt by it although the launch that wrote `shown` gives nothing. There the same is tried with zeros and with ones in
the place of NaN. On one input alone it may be accepted by accident: ReLU in place on a clone of
positive inputs.
"""

from __future__ import annotations

from attrs import evolve, frozen

from ...core.candidate import Failure, RunReport, Variant
from ...core.outcome import Outcome
from ...core.plan import Buffer, BufferKind, Copy, Fill, Launch, LaunchPlan, Operator, View
from ..judge_run import judge_run

KNOCK_OUT_VARIANTS = (Variant.ORIGINAL, Variant.RESEEDED, Variant.NEGATED, Variant.SHIFT_2)
"""Inputs of one size, so that one plan serves them all; signs and means differ."""


def can_survive(plan: LaunchPlan) -> bool:
    """Whether every returned tensor could hold values although nothing is launched."""
    if not plan.launches:
        return False
    reached = [buffer.kind is not BufferKind.TEMPORARY for buffer in plan.buffers]
    for step in plan.steps:
        match step:
            case Fill(target=target):
                reached[target.buffer] = True
            case Copy(source=source, target=target):
                reached[target.buffer] |= reached[source.buffer]
            case Operator(outputs=outputs):
                # even of NaN alone an operator can make values: a comparison, say
                for target in outputs:
                    reached[target.buffer] = True
            case Launch():
                pass
    return all(reached[view.buffer] or 0 in view.shape for view in plan.outputs)


def fills_to_try(plan: LaunchPlan) -> tuple[float | None, ...]:
    """What unwritten memory shall hold in the runs without launches; None is NaN, and no entry means no run."""
    fills: tuple[float | None, ...] = (None,) if can_survive(plan) else ()
    return (*fills, 0.0, 1.0) if plan.operators and plan.launches else fills


def without_launches(plan: LaunchPlan, fill: float | None = None) -> LaunchPlan:
    """The plan with no launch left, its temporaries filled first where `fill` is a number."""
    kept = tuple(step for step in plan.steps if not isinstance(step, Launch))
    if fill is None:
        return evolve(plan, steps=kept)
    fills = tuple(
        Fill(target=_whole(index, buffer), value=fill)
        for index, buffer in enumerate(plan.buffers)
        if buffer.kind is BufferKind.TEMPORARY and buffer.num_elements
    )
    return evolve(plan, steps=fills + kept)


def _whole(index: int, buffer: Buffer) -> View:
    return View(buffer=index, offset=0, shape=(buffer.num_elements,), stride=(1,), dtype=buffer.dtype)


@frozen(kw_only=True)
class KnockOut:
    """Runs of a plan without its launches, on several inputs.

    `fill` is what memory that nothing has written held instead of NaN, or null where it was NaN.
    """

    reports: tuple[RunReport, ...]
    fill: float | None = None


@frozen(kw_only=True)
class KnockOutReport:
    """Runs without any launch, where something of the result could be left without them."""

    knock_outs: tuple[KnockOut, ...]

    @property
    def seconds(self) -> float:
        """Returns the seconds of all runs."""
        return sum(report.seconds for knock_out in self.knock_outs for report in knock_out.reports)


def judge(report: KnockOutReport) -> Failure | None:
    """Returns the objection to a plan that was accepted without its launches on all inputs tried, or None."""
    for knock_out in report.knock_outs:
        if knock_out.reports and all(judge_run(run) is None for run in knock_out.reports):
            message = "" if knock_out.fill is None else f"with {knock_out.fill:g} in the place of what they write"
            return Failure(Outcome.KERNEL_IRRELEVANT, message)
    return None
