"""The audit's hidden inputs on real sandboxes: each finds what the five training variants let through."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import evolve
from tritonrl.core.candidate import Variant
from tritonrl.core.config import ClockConfig, LimitsConfig, VerifierConfig
from tritonrl.core.extensions import AUDIT, VerifierSpec
from tritonrl.core.outcome import Outcome, Stage
from tritonrl.core.task import Task
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.verifier import Verifier
from tritonrl.stages.run_stages import judge_run
from tritonrl.stages.variants import HIDDEN_VARIANTS

from .kernels import ADD, LINEAR, POINTWISE, add, linear, pointwise

MULTI = VerifierSpec(multi_input=True, staged=True)


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    """One verifier for the module."""
    with Sandbox(LimitsConfig()) as sandbox:
        yield Verifier(VerifierConfig(), ClockConfig(), sandbox)


def unary(expression: str, inputs: str) -> Task:
    """The pointwise task with another function and other inputs."""
    source = POINTWISE.source.replace("2.0 * x * torch.sigmoid(x)", expression)
    source = source.replace("torch.randn(ROWS, COLUMNS)", inputs)
    return evolve(POINTWISE, task_id="test-unary", source=source, dtypes=("float32",))


POSITIVE = unary("torch.abs(x) * x", "torch.rand(ROWS, COLUMNS) + 0.5")
FOUND = {
    "a sign that no input had": (POSITIVE, pointwise("x * x"), {Variant.NEGATED, Variant.FLIPPED}),
    "one sign for the whole block": (
        POSITIVE,
        pointwise("tl.where(tl.sum(tl.where(mask, x, 0.0)) > 0.0, x * x, -x * x)"),
        {Variant.FLIPPED},
    ),
    "values beyond those seen": (ADD, add("tl.minimum(x + y, 13.0)"), {Variant.OUTLIERS}),
    "one past the last block": (
        ADD,
        add().replace("mask = offsets < n", "mask = offsets < tl.where(n % 256 == 1, n - 1, n)"),
        {Variant.REMAINDER},
    ),
    "a branch by the shape": (ADD, add("tl.where(n == 513, x, x + y)"), {Variant.REMAINDER}),
    "a product in half precision": (
        LINEAR,
        linear()
        .replace("tl.dot(a, b)", "tl.dot(a.to(tl.float16), b.to(tl.float16))")
        .replace("    accumulator +=", "    accumulator +="),
        {Variant.MASSIVE},
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_hidden_inputs_find_what_training_inputs_do_not(verifier: Verifier, name: str) -> None:
    """The multi-input verifier accepts it, and these hidden inputs at least do not."""
    task, source, variants = FOUND[name]
    assert verifier.verify(task, source, MULTI).correct
    candidate = verifier.gather(task, source, AUDIT)
    failed = {report.variant for report in candidate.evidence.full if judge_run(report) is not None}
    assert variants <= failed <= set(HIDDEN_VARIANTS)
    verdict = verifier.verify(task, source, AUDIT)
    assert verdict.reached is Stage.FULL
    assert verdict.outcome in (Outcome.WRONG_VALUES, Outcome.NOT_FINITE)


def test_massive_inputs_are_for_narrow_products_alone(verifier: Verifier) -> None:
    """A product of float32 values is never run on them: the usual tanh would overflow."""
    candidate = verifier.gather(LINEAR, linear(), AUDIT)
    assert Variant.MASSIVE not in {report.variant for report in candidate.evidence.full}
    tanh = pointwise("(tl.exp(2.0 * x) - 1.0) / (tl.exp(2.0 * x) + 1.0)")
    assert verifier.verify(unary("torch.tanh(x)", "torch.randn(ROWS, COLUMNS)"), tanh, AUDIT).correct
