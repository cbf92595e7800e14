"""The check of the input variants, all in one child."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.candidate import Candidate, Variant
from ....core.recipe.extensions import VerifierSpec
from ....core.task import Task
from ....stages.checks.runs import RunsReport
from ....stages.variants import SAMPLED_VARIANTS, variants_of
from ..context import VerifierContext
from ..recordings import find_uncompiled, later_variants
from ..runs import run_each
from .applicability import find_inapplicable, is_lost_by_reference


def gather(candidate: Candidate, task: Task, context: VerifierContext, spec: VerifierSpec) -> RunsReport:
    """Run the verifier's variants."""
    return run_variants(candidate, task, context, variants_of(spec))


def run_variants(candidate: Candidate, task: Task, context: VerifierContext, variants: Sequence[Variant]) -> RunsReport:
    """Run the wanted variants, those not yet known together in one child.

    Left out are those that say nothing about this candidate (`applicability`). Large sizes have a check of their own
    (`declared`), but for a GPU, which runs whole what compiles in time.
    """
    whole = {inputs.variant for inputs in later_variants(task, context)} if context.cuda is not None else set()
    if whole & set(variants):
        whole -= {inputs.variant for inputs in find_uncompiled(candidate, task, context)}
    runnable = [variant for variant in variants if variant not in SAMPLED_VARIANTS or variant in whole]
    left_out = find_inapplicable(candidate, task, context, runnable)
    wanted = [context.describe(variant, task) for variant in runnable if variant not in left_out]
    inputs = {each.variant: each for each in wanted}
    reports = run_each(candidate, task, context, "full", wanted)
    kept = (report for report in reports if not is_lost_by_reference(report, task, context, inputs[report.variant]))
    return RunsReport(runs=tuple(kept))
