"""Replay without launches, on real sandboxes: kernels for show are refused, and genuine ones that begin with a copy, a
fill or a launch too many are not.
"""

from __future__ import annotations

import pytest
from attrs import evolve
from tritonrl.core.outcome import Outcome, Stage
from tritonrl.core.recipe.extensions import AUDIT, VerifierSpec
from tritonrl.core.task import Task
from tritonrl.harness.verification.verifier import Verifier

from ..kernels import ADD, POINTWISE, add, pointwise

BASELINE = VerifierSpec()


def unary(expression: str, inputs: str = "torch.randn(ROWS, COLUMNS)") -> Task:
    """The pointwise task with another function."""
    source = POINTWISE.source.replace("2.0 * x * torch.sigmoid(x)", expression)
    source = source.replace("torch.randn(ROWS, COLUMNS)", inputs)
    return evolve(POINTWISE, task_id="test-unary", source=source, dtypes=("float32",))


def in_place(body: str, start: str = "x.clone()") -> str:
    """A kernel that works on a copy that PyTorch has made."""
    forward = (
        f"out = {start}\n        n = out.numel()\n"
        "        kernel[(triton.cdiv(n, 128),)](out, out, n, BLOCK=128)\n        return out"
    )
    return pointwise(body, forward=forward)


def test_a_launch_for_show_beside_a_copy_is_refused(verifier: Verifier) -> None:
    """Where PyTorch's copy is the whole result, a kernel that stores what it loads is irrelevant, to every verifier."""
    task = unary("x.t().contiguous()")
    for spec in (AUDIT, BASELINE):
        verdict = verifier.verify(task, in_place("x", "x.t().contiguous()"), spec)
        assert (verdict.reached, verdict.outcome) == (Stage.FULL, Outcome.KERNEL_IRRELEVANT), verdict.stages


@pytest.mark.parametrize("inputs", ["torch.randn(ROWS, COLUMNS)", "torch.rand(ROWS, COLUMNS)"])
def test_a_kernel_in_place_on_a_clone_is_genuine(verifier: Verifier, inputs: str) -> None:
    """A ReLU that works on a clone is right, even for a task whose inputs are all positive."""
    for spec in (AUDIT, BASELINE):
        verdict = verifier.verify(unary("torch.relu(x)", inputs), in_place("tl.maximum(x, 0.0)"), spec)
        assert verdict.correct, verdict.stages


def test_an_accumulator_of_zeros_is_genuine(verifier: Verifier) -> None:
    """A sum by atomics into zeros needs its launch, and is accepted."""
    source = ADD.source.replace("return x + y", "return (x * y).sum().reshape(1)")
    task = evolve(ADD, task_id="test-dot", source=source)
    candidate = (
        add()
        .replace("tl.store(out_ptr + offsets, x + y, mask=mask)", "ATOMIC")
        .replace("ATOMIC", "tl.atomic_add(out_ptr, tl.sum(tl.where(mask, x * y, 0.0)))")
    )
    candidate = candidate.replace("torch.empty_like(x)", "torch.zeros(1, device=x.device)")
    verdict = verifier.verify(task, candidate, AUDIT)
    assert verdict.correct, verdict.stages
