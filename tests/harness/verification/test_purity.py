"""Purity on real sandboxes: what PyTorch computes beside a kernel is refused, or run, counted and knocked out."""

from __future__ import annotations

import pytest
import torch
from attrs import evolve
from tritonrl.core.config import TimingConfig, VerifierConfig
from tritonrl.core.outcome import Outcome, Stage
from tritonrl.core.recipe.extensions import AUDIT, VerifierSpec
from tritonrl.core.task import Task
from tritonrl.harness.sandbox.recording.aten_steps import find_operator
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.verification.verifier import Verifier

from ..kernels import ADD, LINEAR, POINTWISE, add, linear, pointwise

BASELINE = VerifierSpec()


@pytest.fixture(scope="module")
def strict(sandbox: Sandbox) -> Verifier:
    """The default verifier."""
    return Verifier(VerifierConfig(), TimingConfig(), sandbox)


@pytest.fixture(scope="module")
def lenient(sandbox: Sandbox, strict: Verifier) -> Verifier:
    """A verifier that admits operators, on the same store."""
    return Verifier(VerifierConfig(purity="lenient"), TimingConfig(), sandbox, strict.context.store)


def launching(before: str, after: str, body: str = "2.0 * x * tl.sigmoid(x)") -> str:
    """The pointwise kernel between two lines of host code that work on `x` and `out`."""
    return pointwise(
        body,
        forward=f"{before}\n        out = torch.empty_like(x)\n        n = x.numel()\n"
        f"        kernel[(triton.cdiv(n, 128),)](x, out, n, BLOCK=128)\n        {after}\n        return out",
    )


GENUINE = {
    "after": (POINTWISE, launching("pass", "out = torch.mul(out, 2.0)", "x * tl.sigmoid(x)"), 1),
    "before": (POINTWISE, launching("x = x + x", "pass", "x * tl.sigmoid(x * 0.5)"), 1),
    "in place": (POINTWISE, launching("pass", "out.mul_(4.0).div_(2.0)", "x * tl.sigmoid(x)"), 2),
    "another input of the operator": (POINTWISE, launching("pass", "out = out * x * 2", "tl.sigmoid(x)"), 2),
    "several outputs, lists and keywords": (
        POINTWISE,
        launching(
            "pass",
            "out = torch.max(torch.stack([out, out - 1.0]), dim=0)[0]\n"
            "        out = torch.stack([out, out]).sum(dim=0, dtype=x.dtype) / 2",
        ),
        4,
    ),
    "a matrix product": (
        LINEAR,
        linear().replace("return out", "return torch.relu(torch.mm(out, torch.eye(N, device=x.device)))"),
        3,
    ),
}


@pytest.mark.parametrize("name", GENUINE)
def test_operators_beside_a_kernel_are_run_and_counted(strict: Verifier, lenient: Verifier, name: str) -> None:
    """Lenient, the plan is right and the verdict says how many operators compute; strict, it is refused."""
    task, source, count = GENUINE[name]
    verdict = lenient.verify(task, source, AUDIT)
    assert verdict.correct, verdict.stages
    assert verdict.torch_operators == count
    refused = strict.verify(task, source, AUDIT)
    assert (refused.reached, refused.outcome) == (Stage.COMPILE, Outcome.TORCH_ARITHMETIC)


SILU = "2.0 * x * torch.sigmoid(x)"
FOR_SHOW = {
    "result discarded": (launching("pass", f"out = {SILU}"), Stage.COMPILE, Outcome.OUTPUT_NOT_WRITTEN),
    "added times zero": (launching("pass", f"out = {SILU} + 0.0 * out", "0.0 * x"), Stage.FULL, None),
    "multiplied by ones": (launching("pass", f"out = {SILU} * out", "0.0 * x + 1.0"), Stage.FULL, None),
    "stored as it was": (
        pointwise(
            "x", forward=f"out = {SILU}\n        kernel[(1,)](out, out, out.numel(), BLOCK=128)\n        return out"
        ),
        Stage.FULL,
        None,
    ),
}


@pytest.mark.parametrize("name", FOR_SHOW)
def test_launches_for_show_beside_operators_are_refused(lenient: Verifier, name: str) -> None:
    """Where PyTorch does the work, a launch that gives nothing makes no candidate, however it is tied in."""
    source, stage, outcome = FOR_SHOW[name]
    verdict = lenient.verify(POINTWISE, source, AUDIT)
    expected = (stage, outcome or Outcome.KERNEL_IRRELEVANT)
    assert (verdict.reached, verdict.outcome) == expected, verdict.stages


def test_operators_at_the_declared_sizes_alone_are_refused(lenient: Verifier) -> None:
    """What no run has seen PyTorch compute it may not compute where the timing looks."""
    task = evolve(POINTWISE, dtypes=("float32",))
    source = launching(f"if x.numel() > 100_000:\n            y = {SILU}", "out = out if n <= 100_000 else out * 0 + y")
    verdict = lenient.verify(task, source, AUDIT)
    assert (verdict.reached, verdict.outcome) == (Stage.TINY, Outcome.UNSUPPORTED), verdict.stages
    assert "declared sizes" in verdict.stages[2].message


def test_random_and_unknown_operators_are_refused_at_either_purity(strict: Verifier, lenient: Verifier) -> None:
    """A result that draws random numbers is no function of the inputs, and no step of a plan."""
    source = launching("pass", "out = out + 0 * torch.bernoulli(x)")
    for verifier in (strict, lenient):
        assert verifier.verify(POINTWISE, source, AUDIT).outcome is Outcome.TORCH_ARITHMETIC


def test_values_in_the_operators_are_judged(lenient: Verifier) -> None:
    """An operator that is wrong makes the result wrong."""
    verdict = lenient.verify(POINTWISE, launching("pass", "out = out + 0.1"), AUDIT)
    assert (verdict.reached, verdict.outcome) == (Stage.TINY, Outcome.WRONG_VALUES)


def test_strict_candidates_have_the_same_verdict_at_either_purity(strict: Verifier, lenient: Verifier) -> None:
    """Purity changes nothing for plans without operators."""
    task: Task = POINTWISE
    for source in (pointwise(), pointwise("x")):
        first, second = strict.verify(task, source, AUDIT), lenient.verify(task, source, AUDIT)
        assert [(r.outcome, r.message) for r in first.stages] == [(r.outcome, r.message) for r in second.stages]
        assert first.torch_operators == second.torch_operators == 0


@pytest.mark.parametrize(
    "name",
    ["from_file.default", "bernoulli.default", "add_.Tensor", "add.out", "nonzero.default", "no.such", "__class__.x"],
)
def test_a_plan_can_name_no_other_operator(name: str) -> None:
    """Files, randomness, mutation, sizes that depend on values and attributes of modules are out of reach."""
    with pytest.raises(LookupError):
        find_operator(name)
    assert find_operator("add.Tensor") is torch.ops.aten.add.Tensor


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
