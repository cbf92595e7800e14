"""Compare the plans of two passes of a forward, and say where they first differ.

Memory that a pass allocates has a number in its plan, in the order in which it was met there. A workspace that the
first pass keeps is met by the second when it is used: the two plans number it otherwise, and do the same. So buffers
are compared by what they are and by the order in which steps and results first name them; those that nothing names, by
what they are alone: a counter can be kept in the size of one.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from ....core.plan import Copy, Fill, Launch, LaunchPlan, Operator, Step
from ....core.serialisation import to_plain


def find_difference(first: LaunchPlan, second: LaunchPlan, *, of_buffers: bool = True) -> str | None:
    """Return what the second plan does otherwise, in words; None where it does the same.

    Without `of_buffers` it may do so to other buffers.
    """
    if first == second:
        return None
    one, other = _renumbered(first, of_buffers), _renumbered(second, of_buffers)
    for at, (step, changed) in enumerate(zip_longest(one.pop("steps"), other.pop("steps"))):
        if step != changed:
            was, became = _describe(first, at), _describe(second, at)
            became = "the same with other arguments" if became == was else became
            return f"step {at + 1} is {was} in the first pass, {became} in the second"
    if one["outputs"] != other["outputs"]:
        return "the second pass returns other memory than the first"
    if one["unnamed"] != other["unnamed"]:
        return "the second pass allocates other memory than the first"
    return None if one == other else "the second pass uses other kernels than the first"


def _renumbered(plan: LaunchPlan, of_buffers: bool) -> dict[str, Any]:
    """Return the plan as plain data, its buffers numbered as they are first named, each with what it is; or none."""
    numbers: dict[int, int] = {}
    plain: dict[str, Any] = to_plain(plan)
    buffers = plain.pop("buffers")

    def rename(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: name(part) if key == "buffer" else rename(part) for key, part in value.items()}
        return [rename(part) for part in value] if isinstance(value, (list, tuple)) else value

    def name(index: int) -> Any:
        return [numbers.setdefault(index, len(numbers)), buffers[index]] if of_buffers else None

    # in this order: steps come before results
    named = {"steps": rename(plain["steps"]), "outputs": rename(plain["outputs"])}
    unnamed = sorted(str(buffer) for index, buffer in enumerate(buffers) if of_buffers and index not in numbers)
    return {**plain, **named, "unnamed": unnamed}


def _describe(plan: LaunchPlan, at: int) -> str:
    if at >= len(plan.steps):
        return "nothing"
    step: Step = plan.steps[at]
    match step:
        case Launch():
            return f"a launch of {plan.kernels[step.kernel].qualname} on {step.grid}"
        case Fill():
            return f"a fill with {step.nonfinite or f'{step.value:g}'}"
        case Copy():
            return "a copy"
        case Operator():
            return f"the operator {step.name}"
