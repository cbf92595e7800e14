"""Which of the wanted input variants a task and a candidate's plan allow (`stages.variants` decides), and at which
magnitudes a result may be infinite.

Products of many values leave float32's range as soon as these are doubled. On the way to a result that is not beyond it
a product may be, and where depends on the order in which a kernel multiplies: so there results near the end of the
range may be infinite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import evolve, frozen

from ....core.candidate import Candidate, Comparison, RunReport, Variant
from ....core.task import Task
from ....stages.compile_stage import multiplies_narrowly, narrows
from ....stages.tolerance import LARGEST_FINITE, accepts
from ....stages.variants import HIDDEN_VARIANTS, ROWS, SAMPLED_VARIANTS, VariantInputs
from ...reference.oracle import Oracle
from ..context import VerifierContext

_PRODUCTS_OF_MANY = frozenset({"cumprod", "prod"})
_SHARE_OF_RANGE = 1e-4
_MOST_TIMES_LOST = 2
"""By how much a run may lose more elements than the reference: which are lost at the range's end is rounding's."""
_OF_OTHER_VALUES = frozenset(HIDDEN_VARIANTS) - {Variant.REVERSED, *SAMPLED_VARIANTS}
"""Hidden inputs with values that are not the task's own, or at sizes that no profile has."""


def find_inapplicable(
    candidate: Candidate, task: Task, context: VerifierContext, variants: Sequence[Variant]
) -> set[Variant]:
    """Returns those of the variants that say nothing about this candidate."""
    return {
        variant
        for variant in variants
        if not ROWS[variant].applies(_Facts(candidate=candidate, task=task, context=context, variant=variant))
    }


@frozen(kw_only=True)
class _Facts:
    """Finds out what a variant's row asks for, and nothing else: each answer may take the reference a run."""

    candidate: Candidate
    task: Task
    context: VerifierContext
    variant: Variant

    @property
    def _inputs(self) -> VariantInputs:
        return self.context.describe(self.variant, self.task)

    @property
    def is_interpreted(self) -> bool:
        return self.context.cuda is None

    @property
    def has_remainder(self) -> bool:
        return bool(self.context.oracle.remainder(self.task))

    @property
    def is_recorded(self) -> bool:
        return self.candidate.evidence.compile is not None

    @property
    def narrows(self) -> bool:
        report = self.candidate.evidence.compile
        return report is not None and narrows(report)

    @property
    def multiplies_narrowly(self) -> bool:
        report = self.candidate.evidence.compile
        return report is not None and multiplies_narrowly(report)

    @property
    def degree(self) -> int | None:
        return self.context.oracle.degree(self.task, self.context.describe(Variant.ORIGINAL, self.task))

    @property
    def own_degree(self) -> int | None:
        return self.context.oracle.degree(self.task, self._inputs)

    @property
    def is_exact(self) -> bool:
        return self.context.oracle.is_exact(self.task, self._inputs)

    @property
    def saturates(self) -> bool:
        return self.context.oracle.saturates(self.task)

    @property
    def subtracts_maximum(self) -> bool:
        return self.context.oracle.subtracts_maximum(self.task)

    @property
    def orders_inputs(self) -> bool:
        return self.context.oracle.orders_inputs(self.task)

    @property
    def resolves_ties(self) -> bool:
        return self.context.oracle.resolves_ties(self.task)

    @property
    def is_narrowed_to_float16(self) -> bool:
        return self._inputs.dtype == "float16" != self.task.dtypes[0]


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
