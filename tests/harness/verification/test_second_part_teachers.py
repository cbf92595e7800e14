"""Teachers of the second part against the audit verifier, in real sandboxes: one of each kind of kernel."""

from __future__ import annotations

import pytest
from tritonrl.core.corpus import ALL_FAMILIES, Split, examples
from tritonrl.core.recipe.extensions import AUDIT
from tritonrl.harness.verification.verifier import Verifier

FAMILIES = (
    "batch_norm",
    "group_norm_chain",
    "dim_argmax",
    "cumulative_sum",
    "frobenius_norm",
    "row_loss",
    "activation",
    "structured_matmul",
    "attention",
)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_teacher_is_accepted(default_verifier: Verifier, family: str) -> None:
    """What a model is taught is right by the strongest verifier, on hidden inputs and at the declared sizes too."""
    level = 1 if family in ALL_FAMILIES[1] else 2
    example = next(examples(Split.TRAIN, level, 11, [family]))
    verdict = default_verifier.verify(example.task, example.solution, AUDIT)
    assert verdict.correct, (example.task.task_id, [stage.message for stage in verdict.stages if not stage.passed])
