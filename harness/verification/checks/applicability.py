"""Which of the wanted input variants a task and a candidate's plan allow.

A variant may refuse what is wrong and never what is merely written otherwise, so those with unusual values are run only
where something vouches for them. Where the reference itself, in the task's own dtype, is well within the tolerance on
such values, ties and zeros are fair; values that differ in their last digits alone are fair where they are only
compared (many a right kernel takes a variance as a difference of two squares, and loses those digits). Where the result
of a multiple of the inputs is that multiple (a relu, a product of matrices), so are large and faint values: nothing in
such a formula leaves the range that its result has not left. For faint ones it must be so down there too: a norm's
epsilon, which ordinary values do not show, leaves the next function arguments near zero, where a right formula may lose
its digits (the tanh as 2 sigmoid(2x) - 1). Elsewhere large values need a reason in the plan: that it
narrows what the task computes in float32. Where the reference has an operator that PyTorch computes by exponentials
and keeps from overflowing, large values are fair if it stays exact; so they are in a float16 that it stays exact in.
And widely spread values are for references that begin with an operator that PyTorch defines to be right whatever the
magnitudes. Products of many values leave float32's range as soon as these are doubled. On the way to a result that is
not beyond it a product may be, and where depends on the order in which a kernel multiplies: so there results near the
end of the range may be infinite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import evolve

from ....core.candidate import Candidate, Comparison, RunReport, Variant
from ....core.task import Task
from ....stages.compile_stage import multiplies_narrowly, narrows
from ....stages.tolerance import LARGEST_FINITE, accepts
from ....stages.variants import HIDDEN_VARIANTS, SAMPLED_VARIANTS, VariantInputs
from ...reference.oracle import Oracle
from ..context import VerifierContext

_PRODUCTS_OF_MANY = frozenset({"cumprod", "prod"})
_SHARE_OF_RANGE = 1e-4
_WITHOUT_MAXIMUM = (Variant.DEEP, Variant.SPREAD)
_MOST_TIMES_LOST = 2
"""By how much a run may lose more elements than the reference: which are lost at the range's end is rounding's."""
_OF_OTHER_VALUES = frozenset(HIDDEN_VARIANTS) - {Variant.REVERSED, *SAMPLED_VARIANTS}
"""Hidden inputs with values that are not the task's own, or at sizes that no profile has."""


def find_inapplicable(
    candidate: Candidate, task: Task, context: VerifierContext, variants: Sequence[Variant]
) -> set[Variant]:
    """Those of the variants that say nothing about this candidate."""
    return {variant for variant in variants if not _applies(variant, candidate, task, context)}


def _applies(variant: Variant, candidate: Candidate, task: Task, context: VerifierContext) -> bool:
    oracle, inputs = context.oracle, context.describe(variant, task)
    original = context.describe(Variant.ORIGINAL, task)
    if variant is Variant.REMAINDER:
        return bool(oracle.remainder(task))
    if variant is Variant.REVERSED:  # the order of programs is no one's to choose on a GPU
        return context.cuda is None
    if variant is Variant.MASSIVE:
        report = candidate.evidence.compile
        if report is None:
            return False
        is_fair = narrows(report) or bool(oracle.degree(task, original))
        return multiplies_narrowly(report) or (is_fair and oracle.is_exact(task, inputs))
    if variant is Variant.MINUTE:
        degree = oracle.degree(task, original)
        return bool(degree) and oracle.degree(task, inputs) == degree and oracle.is_exact(task, inputs)
    if variant is Variant.SLIGHT:
        return oracle.degree(task, original) == 0 and oracle.is_exact(task, inputs)
    if variant is Variant.SATURATED:
        return oracle.saturates(task) and oracle.is_exact(task, inputs)
    if variant is Variant.HEAVY:
        return inputs.dtype == "float16" != task.dtypes[0] and oracle.is_exact(task, inputs)
    if variant in _WITHOUT_MAXIMUM:
        return oracle.subtracts_maximum(task)
    if variant is Variant.OFFSET:
        return oracle.orders_inputs(task) and oracle.is_exact(task, inputs)
    if variant is Variant.TIES:
        return oracle.resolves_ties(task) and oracle.is_exact(task, inputs)
    return True


def is_lost_by_reference(report: RunReport, task: Task, context: VerifierContext, inputs: VariantInputs) -> bool:
    """Whether a run says nothing, since it is infinite or NaN as the reference itself is in its own dtype.

    A recurrence that shifted inputs let grow overflows on its way to a result that float64 reaches. That is asked only
    of a run that is not finite where it should be, and only of hidden inputs, which no task has chosen. It may be no
    worse than the reference: not in many more elements, nor wrong in the others where the reference is right.
    """
    is_finite = not any(comparison.num_nonfinite for comparison in report.comparisons)
    if report.failure is not None or is_finite or inputs.variant not in _OF_OTHER_VALUES:
        return False
    own = context.oracle.own_errors(task, inputs)
    return len(own) == len(report.comparisons) and all(map(_is_no_worse, report.comparisons, own))


def _is_no_worse(found: Comparison, own: Comparison) -> bool:
    is_accurate, is_own_accurate = (accepts(evolve(each, num_nonfinite=0)) for each in (found, own))
    return found.num_nonfinite <= _MOST_TIMES_LOST * own.num_nonfinite and (is_accurate or not is_own_accurate)


def find_largest_safe(task: Task, oracle: Oracle) -> float:
    """The largest result that a right kernel in float32 reaches whatever the order in which it multiplies."""
    names = {operator.name.split(".")[1] for operator in oracle.operators(task)}
    return _SHARE_OF_RANGE * LARGEST_FINITE["float32"] if names & _PRODUCTS_OF_MANY else math.inf
