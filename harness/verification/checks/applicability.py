"""The facts about a task, a plan and a variant's inputs by which `stages.variants` says which variants apply."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import frozen

from ....core.candidate import Candidate, RunReport, Variant
from ....core.run import TensorSpec
from ....core.task import Profile, Task
from ....stages import judge_run
from ....stages.compile_stage import multiplies_narrowly, narrows, places_by_floats
from ....stages.operator_traits import OperatorTraits
from ....stages.tolerance import WELL_WITHIN, choose_share
from ....stages.variant_inputs import VariantInputs
from ....stages.variants import HIDDEN_VARIANTS, ROWS, SAMPLED_VARIANTS, SPREAD_VARIANTS
from ...reference.values import alike_shape
from ..context import VerifierContext

_OF_OTHER_VALUES = frozenset(
    variant
    for variant in HIDDEN_VARIANTS
    if variant not in (Variant.REVERSED, Variant.SHORT_FLOATS, *SAMPLED_VARIANTS)
    and not ROWS[variant].judges_elements_alone
)
"""Hidden inputs with values that are not the task's own, or at sizes that no profile has, and judge as a whole."""
_ANY_VALUES = _OF_OTHER_VALUES | {Variant.SCALED, *SPREAD_VARIANTS}
"""All inputs with values that are not the task's own."""


def find_inapplicable(
    candidate: Candidate, task: Task, context: VerifierContext, variants: Sequence[Variant]
) -> set[Variant]:
    """Return those of the variants that say nothing about this candidate.

    Inputs that no task has chosen judge nobody where the reference itself fails, unless it does on its own inputs too,
    nor where it refuses them.
    """
    facts = {variant: _Facts(candidate=candidate, task=task, context=context, variant=variant) for variant in variants}
    original = _Facts(candidate=candidate, task=task, context=context, variant=Variant.ORIGINAL)

    def applies(variant: Variant) -> bool:
        if variant in _ANY_VALUES and not facts[variant].is_accepted:
            return False
        asked = ROWS[variant].applies(facts[variant])
        return asked and (variant not in _OF_OTHER_VALUES or facts[variant].is_sound or not original.is_sound)

    return {variant for variant in variants if not applies(variant)}


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
    def has_integers(self) -> bool:
        return bool(self.context.oracle.changeable_integers(self.task, self._inputs.integers))

    @property
    def traits(self) -> OperatorTraits:
        return self.context.oracle.traits(self.task)

    @property
    def passes_over_nan(self) -> bool:
        return self.context.oracle.is_exact(self.task, self._inputs) and all(
            values.dtype.kind == "f" for values in self.context.oracle.expected(self.task, self._inputs).expected
        )

    @property
    def has_numbers(self) -> bool:
        return self.context.oracle.has_numbers(self.task)

    @property
    def has_inner_one(self) -> bool:
        oracle = self.context.oracle
        # what cancels in a row of one element has no digits
        return bool(oracle.inner_one(self.task)) and all(
            np.any(values) for values in oracle.expected(self.task, self._inputs).expected
        )

    @property
    def has_narrow_operands(self) -> bool:
        return self._inputs.dtype in ("float16", "bfloat16") and bool(self.context.oracle.inner_axes(self.task))

    @property
    def has_inputs_alike(self) -> bool:
        drawn = self.context.oracle.build(self.task, Profile.SMALL, self._inputs.dtype).inputs
        tensors = [each for each in drawn if isinstance(each, TensorSpec) and each.dtype == self._inputs.dtype]
        return len({alike_shape(each.shape) for each in tensors}) < len(tensors)

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
    def places_by_floats(self) -> bool:
        report = self.candidate.evidence.compile
        return report is not None and places_by_floats(report)

    @property
    def degree(self) -> int | None:
        return self.context.oracle.degree(self.task, self.context.describe(Variant.ORIGINAL, self.task))

    @property
    def own_degree(self) -> int | None:
        return self.context.oracle.degree(self.task, self._inputs)

    @property
    def is_accepted(self) -> bool:
        """Whether the reference runs on the variant's inputs."""
        return self.context.oracle.is_accepted(self.task, self._inputs)

    @property
    def is_sound(self) -> bool:
        """Whether the reference gives numbers on the variant's inputs, and right ones in its own dtype.

        Products in float32 must be well within the tolerance.
        """
        oracle, is_large = self.context.oracle, ROWS[self.variant].is_large
        multiplies = self.traits.num_products > 0
        share = choose_share(self._inputs.dtype, multiplies, False, False, is_large)
        if multiplies and self._inputs.dtype == "float32":
            share *= WELL_WITHIN
        return oracle.is_sound(self.task, self._inputs, share)

    @property
    def is_exact(self) -> bool:
        return self.context.oracle.is_exact(self.task, self._inputs)

    @property
    def resolves_ties(self) -> bool:
        return self.context.oracle.resolves_ties(self.task)

    @property
    def is_narrowed_to_float16(self) -> bool:
        return self._inputs.dtype == "float16" != self.task.dtypes[0]


def is_lost_by_reference(report: RunReport, task: Task, context: VerifierContext, inputs: VariantInputs) -> bool:
    """Return whether a run on hidden inputs, which no task has chosen, is lost as the reference's own is.

    The reference runs in its own dtype only for a run that is not finite where it should be.
    """
    may_be_lost = inputs.variant in _OF_OTHER_VALUES and judge_run.has_lost_elements(report)
    return may_be_lost and judge_run.is_lost_by_reference(report, context.oracle.own_errors(task, inputs))
