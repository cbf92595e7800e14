"""The audit's hidden inputs on real sandboxes: each finds what the five training variants let through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve
from tritonrl.core.candidate import Failure, Variant
from tritonrl.core.outcome import Outcome, Stage
from tritonrl.core.recipe.extensions import AUDIT, VerifierSpec
from tritonrl.core.run import RunReply, RunRequest
from tritonrl.core.task import Task
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.verification.checks.probes import run_variants
from tritonrl.harness.verification.evidence_store import EvidenceStore
from tritonrl.harness.verification.verifier import Verifier
from tritonrl.stages.funnel import find_runs
from tritonrl.stages.judge_run import judge_run
from tritonrl.stages.variants import HIDDEN_VARIANTS

from ..kernels import ADD, LINEAR, NORM, POINTWISE, add, linear, norm, pointwise

MULTI = VerifierSpec(multi_input=True, stop_early=True)


def unary(expression: str, inputs: str) -> Task:
    """The pointwise task with another function and other inputs."""
    source = POINTWISE.source.replace("2.0 * x * torch.sigmoid(x)", expression)
    source = source.replace("torch.randn(ROWS, COLUMNS)", inputs)
    return evolve(POINTWISE, task_id="test-unary", source=source, dtypes=("float32",))


RELU = unary("torch.relu(x)", "torch.randn(ROWS, COLUMNS)")
LOG_SOFTMAX = evolve(
    NORM,
    task_id="test-log-softmax",
    source=NORM.source.replace("self.norm(x)", "torch.log_softmax(x, dim=-1)"),
)
UNSTABLE = (
    norm(scale="")
    .replace("mean = tl.sum(x) / n", "top = tl.max(tl.where(mask, x, -float('inf')))")
    .replace("tl.where(mask, x - mean, 0.0)", "tl.where(mask, tl.exp(x - top), 0.0)")
    .replace("variance = tl.sum(centred * centred) / n", "y = tl.log(centred / tl.sum(centred))")
    .replace("    y = centred / tl.sqrt(variance + 1e-5)\n", "")
)
HALF_SQUARES = """low = centred.to(x_ptr.dtype.element_ty)
    variance = tl.sum((low * low).to(tl.float32)) / n"""
POSITIVE = unary("torch.abs(x) * x", "torch.rand(ROWS, COLUMNS) + 0.5")
FOUND = {
    "a sign that no input had": (POSITIVE, pointwise("x * x"), {Variant.NEGATED, Variant.HALF_NEGATED}),
    "one sign for the whole block": (
        POSITIVE,
        pointwise("tl.where(tl.sum(tl.where(mask, x, 0.0)) > 0.0, x * x, -x * x)"),
        {Variant.HALF_NEGATED},
    ),
    "values beyond those seen": (ADD, add("tl.minimum(x + y, 13.0)"), {Variant.OUTLIERS}),
    "one past the last block": (
        ADD,
        add().replace("mask = offsets < n", "mask = offsets < tl.where(n % 256 == 1, n - 1, n)"),
        {Variant.REMAINDER},
    ),
    "a ceiling far above": (RELU, pointwise("tl.minimum(tl.maximum(x, 0.0), 1000.0)"), {Variant.SCALE_1E5}),
    "faint values are zero": (RELU, pointwise("tl.where(x > 1e-5, x, 0.0)"), {Variant.SCALE_1E_8}),
    "operands rounded to half precision": (
        LINEAR,
        linear().replace("tl.dot(a, b)", "tl.dot(a.to(tl.float16).to(tl.float32), b)"),
        {Variant.SCALE_1E5},
    ),
    "a zero divides": (RELU, pointwise("(x * x + x * tl.abs(x)) / (2.0 * tl.abs(x))"), {Variant.TIES}),
    "a logarithm of what has vanished": (LOG_SOFTMAX, UNSTABLE, {Variant.SCALE_30_SHIFT_100}),
    "hardly an epsilon": (NORM, norm().replace("1e-5", "1e-9"), {Variant.SCALE_1E_4}),
    "a branch by the shape": (ADD, add("tl.where(n == 513, x, x + y)"), {Variant.REMAINDER}),
    "a tanh that overflows": (
        unary("torch.tanh(x)", "torch.randn(ROWS, COLUMNS)"),
        pointwise("(tl.exp(2.0 * x) - 1.0) / (tl.exp(2.0 * x) + 1.0)"),
        {Variant.SCALE_100},
    ),
    "squares in float16": (
        evolve(NORM, task_id="test-half-norm", dtypes=("float32", "float16")),
        norm().replace("variance = tl.sum(centred * centred) / n", HALF_SQUARES),
        {Variant.FP16_SCALE_300},
    ),
    "a product in half precision": (
        LINEAR,
        linear()
        .replace("tl.dot(a, b)", "tl.dot(a.to(tl.float16), b.to(tl.float16))")
        .replace("    accumulator +=", "    accumulator +="),
        {Variant.SCALE_1E5},
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_hidden_inputs_find_what_training_inputs_do_not(verifier: Verifier, name: str) -> None:
    """The multi-input verifier accepts it, and these hidden inputs at least do not."""
    task, source, variants = FOUND[name]
    assert verifier.verify(task, source, MULTI).correct
    candidate = verifier.gather(task, source, AUDIT)
    failed = {report.variant for report in find_runs(candidate) if judge_run(report) is not None}
    assert variants <= failed <= set(HIDDEN_VARIANTS)
    verdict = verifier.verify(task, source, AUDIT)
    assert verdict.reached is Stage.FULL
    assert verdict.outcome in (Outcome.WRONG_VALUES, Outcome.NOT_FINITE)


def test_massive_inputs_are_for_narrow_products_alone(verifier: Verifier) -> None:
    """A product of float32 values is never run on them."""
    candidate = verifier.gather(LINEAR, linear(), AUDIT)
    assert Variant.SCALE_1E5 not in {report.variant for report in find_runs(candidate)}


def test_what_the_reference_cannot_do_is_not_asked_for(verifier: Verifier) -> None:
    """An exponential may overflow where PyTorch's does, and squares in float16 where the reference takes them too."""
    exponential = unary("torch.sigmoid(x) * torch.exp(x)", "torch.randn(ROWS, COLUMNS)")
    source = pointwise("tl.exp(x) * tl.exp(x) / (1.0 + tl.exp(x))")
    assert verifier.verify(exponential, source, AUDIT).correct
    squares = evolve(unary("x * x", "torch.randn(ROWS, COLUMNS)"), dtypes=("float32", "float16"))
    assert verifier.verify(squares, pointwise("x * x"), AUDIT).correct


def test_inputs_on_which_the_reference_fails_judge_nobody(verifier: Verifier) -> None:
    """A divergence of negative targets is no number, and a kernel may answer anything there; elsewhere it is judged."""
    divergence = unary("torch.xlogy(x, x) - x", "torch.rand(ROWS, COLUMNS) + 0.5")
    source = "x * tl.log(tl.where(x > 0.0, x, {})) - x"
    assert verifier.verify(divergence, pointwise(source.format("1.0")), AUDIT).correct
    ran = {report.variant for report in find_runs(verifier.gather(divergence, pointwise(source.format("1.0")), AUDIT))}
    assert Variant.NEGATED not in ran
    assert Variant.SCALE_1E_2 in ran
    capped = "tl.minimum(x, 1.2) * tl.log(tl.where(x > 0.0, x, 1.0)) - x"
    assert verifier.verify(divergence, pointwise(capped), AUDIT).outcome is Outcome.WRONG_VALUES


def test_values_that_the_reference_loses_are_not_asked_for(verifier: Verifier) -> None:
    """It overflows on hidden inputs in its own dtype, and so may a kernel; one that no reference excuses may not."""
    quotient = unary("torch.exp(8.0 * x) / torch.exp(7.0 * x)", "torch.randn(ROWS, COLUMNS)")
    source = pointwise("tl.exp(8.0 * x) / tl.exp(7.0 * x)")
    assert verifier.verify(quotient, source, AUDIT).correct
    left, whole = (
        {report.variant for report in find_runs(verifier.gather(quotient, kernel, AUDIT))}
        for kernel in (source, pointwise("tl.exp(x)"))
    )
    assert Variant.OUTLIERS in whole - left
    assert whole - left <= set(HIDDEN_VARIANTS)
    verdict = verifier.verify(unary("torch.exp(x)", "torch.randn(ROWS, COLUMNS)"), source, AUDIT)
    assert verdict.outcome is Outcome.NOT_FINITE
    for factor in ("float('nan')", "2.0"):
        worse = f"tl.where(tl.max(tl.where(mask, tl.abs(x), 0.0)) > 11.0, {factor}, 1.0) * {{}}"
        verdict = verifier.verify(quotient, pointwise(worse.format("(tl.exp(8.0 * x) / tl.exp(7.0 * x))")), AUDIT)
        assert verdict.outcome in (Outcome.NOT_FINITE, Outcome.WRONG_VALUES)


def test_rounding_that_matrix_units_excuse_is_refused_without_them(verifier: Verifier) -> None:
    """A softsign in half precision is within the limits for products in TF32, and not within those for no products."""
    task = unary("x / (1.0 + x.abs())", "torch.randn(ROWS, COLUMNS)")
    assert verifier.verify(task, pointwise("x / (1.0 + tl.abs(x))"), MULTI).correct
    half = "x.to(tl.float16).to(tl.float32)"
    verdict = verifier.verify(task, pointwise(f"{half} / (1.0 + tl.abs({half}))"), MULTI)
    assert verdict.outcome is Outcome.WRONG_VALUES


def test_a_variance_as_a_difference_of_squares_is_accepted(verifier: Verifier) -> None:
    """It loses digits where the mean is large, as many a right kernel does, so no input asks for them."""
    squares = norm().replace(
        "variance = tl.sum(centred * centred) / n", "variance = tl.maximum(tl.sum(x * x) / n - mean * mean, 0.0)"
    )
    assert verifier.verify(NORM, squares, AUDIT).correct


class SlowAtTheRemainder:
    """A sandbox in which the sizes of the remainder take longer than the limits allow."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.num_late = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    def run(self, source: str, requests: Sequence[RunRequest], patience: int = 1) -> RunReply:
        """The sandbox's reply, or that it took too long."""
        if patience == 1 and any(request.variant is Variant.REMAINDER for request in requests):
            self.num_late += 1
            return RunReply(failure=Failure(outcome=Outcome.TIMEOUT))
        return self._sandbox.run(source, requests, patience)


def test_the_remainder_may_take_long(verifier: Verifier) -> None:
    """A right kernel that is slow at the largest sizes that are interpreted whole is right, and others are judged."""
    candidate = verifier.gather(POINTWISE, pointwise(), AUDIT)
    sandbox: Any = SlowAtTheRemainder(verifier.context.sandbox)
    variants = (Variant.ORIGINAL, Variant.REMAINDER, Variant.REVERSED)
    with EvidenceStore() as store:
        context = evolve(verifier.context, sandbox=sandbox, store=store)
        report = run_variants(candidate, POINTWISE, context, variants)
    assert sandbox.num_late == 1
    assert {run.variant for run in report.runs} == set(variants)
    assert [judge_run(run) for run in report.runs] == [None] * 3
