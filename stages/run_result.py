"""The comparison of one run's result with the oracle's, and the objections that need no values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from ..core.candidate import Comparison, Failure
from ..core.outcome import Outcome
from ..core.plan import BufferKind, LaunchPlan
from .tolerance import compare


@frozen(kw_only=True)
class ExpectedOutput:
    """One returned tensor as the reference has it; `least_scale` and `largest_safe` as in `tolerance.compare`."""

    values: NDArray[np.generic]
    dtype: str
    share_of_tolerance: float = 1.0
    least_scale: float = 0.0
    largest_safe: float = np.inf


def compare_outputs(
    plan: LaunchPlan, outputs: Sequence[NDArray[np.generic] | None], expected: Sequence[ExpectedOutput]
) -> tuple[Comparison, ...] | Failure:
    """Compare a run's outputs with the reference's, or return why they cannot be.

    `outputs` are null where a result's bytes do not fit the plan. Arrays have the shapes of the plan's outputs.
    """
    if len(outputs) != len(plan.outputs):
        return Failure(outcome=Outcome.BROKEN_PROTOCOL, message="not as many results as the plan returns")
    if len(plan.outputs) != len(expected):
        message = f"returns {len(plan.outputs)} tensors, the reference {len(expected)}"
        return Failure(outcome=Outcome.WRONG_SIGNATURE, message=message)
    comparisons = tuple(_compare_each(plan, outputs, expected))
    if None in comparisons:
        return Failure(outcome=Outcome.BROKEN_PROTOCOL, message="a result's size is not what the plan says")
    return tuple(comparison for comparison in comparisons if comparison is not None)


def _compare_each(
    plan: LaunchPlan, outputs: Sequence[NDArray[np.generic] | None], expected: Sequence[ExpectedOutput]
) -> Iterator[Comparison | None]:
    for view, actual, wanted in zip(plan.outputs, outputs, expected, strict=True):
        if actual is None:
            yield None
            return
        found = compare(actual, wanted.values, view.dtype, wanted.dtype, wanted.least_scale, wanted.largest_safe)
        yield evolve(found, share_of_tolerance=wanted.share_of_tolerance)


def find_trespass(plan: LaunchPlan, out_of_bounds: Sequence[int], mutated: Sequence[int]) -> Failure | None:
    """Returns an objection to a run that wrote outside its buffers, or changed what the candidate was given, or None.

    Both are indices of the plan's buffers.
    """
    if out_of_bounds:
        return Failure(outcome=Outcome.OUT_OF_BOUNDS, message=_name_buffers(plan, out_of_bounds))
    if mutated:
        kinds = {plan.buffers[index].kind for index in mutated if 0 <= index < len(plan.buffers)}
        advice = (
            "; let forward make with torch.empty or torch.zeros what it writes"
            if kinds == {BufferKind.CONSTANT}
            else ""
        )
        return Failure(outcome=Outcome.INPUT_MUTATED, message=_name_buffers(plan, mutated) + advice)
    return None


def _name_buffers(plan: LaunchPlan, indices: Sequence[int]) -> str:
    known = [plan.buffers[index] for index in indices if 0 <= index < len(plan.buffers)]
    return ", ".join(f"{buffer.kind} {buffer.name}".strip() for buffer in known)
