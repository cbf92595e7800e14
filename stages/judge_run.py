"""Whether one execution of a plan gave the reference's values, and whether it says anything at all.

It finished, inputs are as they were, nothing was written outside the buffers, and every returned tensor is within
tolerance of the oracle.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from ..core.candidate import Comparison, Failure, RunReport, Variant
from ..core.outcome import Outcome
from ..core.plan import BufferKind, LaunchPlan
from ..core.run import RunResult
from .tolerance import TOLERANCES, IntegerRange, accepts, compare, find_needed_share

_REFUSALS = (Outcome.INIT_FAILED, Outcome.FORWARD_FAILED, Outcome.COMPILE_FAILED, Outcome.UNSUPPORTED)
_MOST_TIMES_LOST = 2
"""By how much a run may lose more elements than the reference: which are lost at the range's end is rounding's."""

_TIMES_OWN_ERROR = 4.0
"""How much larger a right run's error may be than the reference's own: both are of roundings, which differ."""


def is_sound(expected: Sequence[NDArray[np.generic]], own_errors: Sequence[Comparison], share: float) -> bool:
    """Return whether a reference can judge on some inputs: most results are numbers, and its own dtype's are right.

    `own_errors` are its results in its own dtype against `expected`, empty where they cannot be had; `share` is the
    share of the tolerance that a candidate has there. Elements that its own dtype loses are excused one by one
    (`is_lost_by_reference`).
    """
    has_numbers = all(not values.size or np.isfinite(values).mean() >= 0.5 for values in expected)
    return has_numbers and all(accepts(evolve(one, num_nonfinite=0), share) for one in own_errors)


def excuse(own_errors: Sequence[Comparison], share: float) -> float:
    """Return the share of the tolerance for a run whose reference has these errors in its own dtype.

    That is `share`, or several times what the reference itself needs where it misses it: a GELU of a log-softmax over a
    thousand elements subtracts from 1 what is nearly 1, in a kernel as in PyTorch.
    """
    needed = max(map(find_needed_share, own_errors), default=0.0)
    return share if needed <= share else _TIMES_OWN_ERROR * needed


@frozen(kw_only=True)
class ExpectedOutput:
    """One returned tensor as the reference has it; the fields after `dtype` are as in `tolerance.compare`."""

    values: NDArray[np.generic]
    dtype: str
    share_of_tolerance: float = 1.0
    least_scale: float = 0.0
    largest_safe: float = np.inf
    element_scales: NDArray[np.float64] | None = None
    judges_elements_alone: bool = False
    integer_range: IntegerRange | None = None


def compare_run(
    plan: LaunchPlan,
    result: RunResult,
    outputs: Sequence[NDArray[np.generic] | None],
    expected: Sequence[ExpectedOutput],
) -> tuple[Comparison, ...] | Failure:
    """Compare what one execution left with what the reference has, or return why it is refused without that.

    `outputs` are null where a result's bytes do not fit the plan. Arrays have the shapes of the plan's outputs.
    """
    failure = result.failure or find_trespass(plan, result.out_of_bounds, result.mutated)
    if failure is not None:
        return failure
    if len(outputs) != len(plan.outputs):
        return Failure(Outcome.BROKEN_PROTOCOL, "not as many results as the plan returns")
    if len(plan.outputs) != len(expected):
        return Failure(Outcome.WRONG_SIGNATURE, f"returns {len(plan.outputs)} tensors, the reference {len(expected)}")
    comparisons = []
    for view, actual, wanted in zip(plan.outputs, outputs, expected, strict=True):
        if actual is None:
            return Failure(Outcome.BROKEN_PROTOCOL, "a result's size is not what the plan says")
        found = compare(
            actual,
            wanted.values,
            view.dtype,
            wanted.dtype,
            wanted.least_scale,
            wanted.largest_safe,
            wanted.element_scales,
            wanted.judges_elements_alone,
            wanted.integer_range,
        )
        comparisons.append(evolve(found, share_of_tolerance=wanted.share_of_tolerance))
    return tuple(comparisons)


def find_trespass(plan: LaunchPlan, out_of_bounds: Sequence[int], mutated: Sequence[int]) -> Failure | None:
    """Returns an objection to a run that wrote outside its buffers, or changed what the candidate was given, or None.

    Both are indices of the plan's buffers.
    """
    if out_of_bounds:
        return Failure(Outcome.OUT_OF_BOUNDS, _name_buffers(plan, out_of_bounds))
    if mutated:
        kinds = {plan.buffers[index].kind for index in mutated if 0 <= index < len(plan.buffers)}
        advice = (
            "; let forward make with torch.empty or torch.zeros what it writes"
            if kinds == {BufferKind.CONSTANT}
            else ""
        )
        return Failure(Outcome.INPUT_MUTATED, _name_buffers(plan, mutated) + advice)
    return None


def _name_buffers(plan: LaunchPlan, indices: Sequence[int]) -> str:
    return ", ".join(plan.buffers[index].title for index in indices if 0 <= index < len(plan.buffers))


def judge_run(report: RunReport) -> Failure | None:
    """Why one execution is not right, or None."""
    if report.failure is not None:
        # who refuses a dimension of one, as Triton does a hint of one, gives nobody a wrong result
        is_refusal = report.variant is Variant.INNER_ONE and report.failure.outcome in _REFUSALS
        return None if is_refusal else report.failure
    if not report.comparisons:
        return Failure(Outcome.BROKEN_PROTOCOL, "no output was returned")
    for position, comparison in enumerate(report.comparisons):
        failure = _judge_comparison(comparison)
        if failure is not None:
            where = f"output {position}: " if len(report.comparisons) > 1 else ""
            return Failure(failure.outcome, where + failure.message)
    return None


def _judge_comparison(comparison: Comparison) -> Failure | None:
    if accepts(comparison):
        return None
    if not comparison.shape_matches:
        return Failure(Outcome.WRONG_SIGNATURE, f"another shape than the reference's, {comparison.shape}")
    if not comparison.dtype_matches:
        return Failure(Outcome.WRONG_SIGNATURE, f"{comparison.dtype} is not the dtype of the reference's result")
    shape = f", {comparison.dtype} of shape {comparison.shape}" if comparison.shape else ""
    of_all = f"of {comparison.num_elements} elements"
    if comparison.num_nonfinite:
        return Failure(Outcome.NOT_FINITE, f"{comparison.num_nonfinite} {of_all}{shape}")
    if comparison.num_different:
        return Failure(Outcome.WRONG_VALUES, f"{comparison.num_different} {of_all} differ{shape}")
    tolerance, share = TOLERANCES[comparison.dtype], comparison.share_of_tolerance
    own = f", of its own scale {comparison.worst_element:.2g}" if comparison.worst_element else ""
    return Failure(
        Outcome.WRONG_VALUES,
        f"relative error {comparison.relative_error:.2g} (at most {share * tolerance.relative_error:.2g}), "
        f"worst element {comparison.worst_excess:.2g}{own} (at most {share * tolerance.worst_excess:.2g}){shape}",
    )


def is_lost_by_reference(report: RunReport, own: Sequence[Comparison]) -> bool:
    """Return whether a run says nothing, since it is infinite or NaN as the reference itself is in its own dtype.

    `own` compares the reference in that dtype with the oracle. A recurrence that shifted inputs let grow overflows on
    its way to a result that float64 reaches. The run may be no worse than the reference: not in many more elements, nor
    wrong in the others where the reference is right.
    """
    return (
        has_lost_elements(report)
        and len(own) == len(report.comparisons)
        and all(map(_is_no_worse, report.comparisons, own))
    )


def has_lost_elements(report: RunReport) -> bool:
    """Return whether a run came to its end and is not finite where it should be."""
    return report.failure is None and any(comparison.num_nonfinite for comparison in report.comparisons)


def _is_no_worse(found: Comparison, own: Comparison) -> bool:
    is_accurate, is_own_accurate = (accepts(evolve(each, num_nonfinite=0)) for each in (found, own))
    return found.num_nonfinite <= _MOST_TIMES_LOST * own.num_nonfinite and (is_accurate or not is_own_accurate)
