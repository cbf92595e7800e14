"""Teachers under the audit verifier, on the interpreter: one of each kind of kernel."""

from __future__ import annotations

import pytest
from tritonrl.core.corpus import ALL_FAMILIES, Split, examples, render
from tritonrl.core.recipe.extensions import AUDIT
from tritonrl.harness.tasks.validation import validate_task
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


@pytest.mark.parametrize(
    "task_id",
    [
        "conv-bn-relu",
        "l1-transposed_conv-7976bf21c65405cb",
        "l1-avg_pool-9e3779b97f4a7c15",
        "l2-conv_reduce_chain-bf6f9291e61c5155",
        "l2-transposed_conv_chain-b71b1dc5132ad641",  # with one division more LLVM aborted on it
    ],
)
def test_a_teacher_is_accepted_and_its_task_is_sound(verifier: Verifier, task_id: str) -> None:
    """The audit accepts the solution on every variant, and no cheap wrong answer would pass."""
    example = render(task_id)
    verdict = verifier.verify(example.task, example.solution, AUDIT)
    assert verdict.correct, [stage.message for stage in verdict.stages]
    assert validate_task(verifier, example.task) == ()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_teacher_is_accepted(default_verifier: Verifier, family: str) -> None:
    """What a model is taught is right by the strongest verifier, on hidden inputs and at the declared sizes too."""
    level = 1 if family in ALL_FAMILIES[1] else 2
    example = next(examples(Split.TRAIN, level, 11, [family]))
    verdict = default_verifier.verify(example.task, example.solution, AUDIT)
    assert verdict.correct, (example.task.task_id, [stage.message for stage in verdict.stages if not stage.passed])
