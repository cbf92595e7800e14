"""An autotuner's configurations: each that it could choose is run, and none that it could not counts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.candidate import Variant
from tritonrl.core.corpus import render
from tritonrl.core.outcome import Outcome, Stage
from tritonrl.core.recipe.extensions import AUDIT, Extensions, VerifierSpec
from tritonrl.core.verdict import Verdict
from tritonrl.harness.verification.checks.configurations import MOST_CONFIGURATIONS, draw_choices
from tritonrl.harness.verification.verifier import Verifier
from tritonrl.stages.checks.configurations import ConfigurationsReport

RELU = render("l1-unary-7fce4ae6f9f1a504")
HEAD = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

"""
KERNEL = """
@triton.autotune(configs=[{configs}], key=["n"]{options})
@triton.jit
def {name}(a_ptr, out_ptr, n, BLOCK: tl.constexpr, PART: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    {line}
    a = tl.load(a_ptr + offs, mask=mask, other=0.0)
    tl.store(out_ptr + offs, tl.maximum(a, 0.0), mask=mask)

"""
MODEL = """
class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        relu_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](a, out, n)
        return out
"""


def config(block: int, part: int = 1) -> str:
    """One configuration's text."""
    return f'triton.Config({{"BLOCK": {block}, "PART": {part}}})'


def kernel(*configs: str, line: str = "mask = mask & (PART > 0)", options: str = "", name: str = "relu_kernel") -> str:
    """A tuned kernel that does nothing where PART is 0, but for another line."""
    return KERNEL.format(configs=", ".join(configs), line=line, options=options, name=name)


def verify(verifier: Verifier, *parts: str, spec: VerifierSpec = AUDIT) -> Verdict:
    """The verdict on a source of these parts."""
    return verifier.verify(RELU.task, HEAD + "".join(parts), spec)


def message(verdict: Verdict) -> str:
    """What the full stage says."""
    return next(result.message for result in verdict.stages if result.stage is Stage.FULL)


def test_every_configuration_of_a_right_tuner_is_run(verifier: Verifier) -> None:
    """Four blocks are four runs, samples of the three that no recording has at each large size, and all is correct."""
    source = HEAD + kernel(config(128), config(256), config(512), config(1024)) + MODEL
    found = verifier.gather(RELU.task, source, AUDIT).evidence.report("configurations")
    assert isinstance(found, ConfigurationsReport)
    names = [run.description.partition(",")[0] for run in found.runs]
    others = ["BLOCK=256", "BLOCK=512", "BLOCK=1024"]
    assert names == ["BLOCK=128", *others, *3 * others]
    variants = [run.report.variant for run in found.runs[4:]]
    assert variants == [each for each in (Variant.DECLARED, Variant.BEYOND, Variant.TWICE) for _ in others]
    assert verify(verifier, source).correct


def test_a_candidate_without_a_tuner_has_no_such_runs(verifier: Verifier) -> None:
    """Nor has one with a single configuration."""
    sources = (RELU.solution, HEAD + kernel(config(128)) + MODEL)
    for source in sources:
        assert verifier.gather(RELU.task, source, AUDIT).evidence.report("configurations") is None


def test_a_training_verifier_does_not_pay_for_them(verifier: Verifier) -> None:
    """Only the audit looks."""
    parts = kernel(config(128), config(128, 0)), MODEL
    assert verify(verifier, *parts, spec=VerifierSpec.for_training(Extensions())).correct
    assert not verify(verifier, *parts).correct


def test_the_last_of_many_configurations_is_found(verifier: Verifier) -> None:
    """The message names it."""
    verdict = verify(verifier, kernel(*(config(2**power) for power in range(5, 11)), config(64, 0)), MODEL)
    assert verdict.reached is Stage.FULL
    assert "configuration BLOCK=64, PART=0" in message(verdict)


TWO = """
class ModelNew(nn.Module):
    def forward(self, a):
        out, n, blocks = torch.empty_like(a), a.numel(), []

        def grid(meta):
            blocks.append(meta["BLOCK"])
            return (triton.cdiv(n, meta["BLOCK"]),)

        first_kernel[grid](a, out, n)
        {}
        second_kernel[grid](a, out, n)
        {}
        return out
"""


def test_two_tuners_that_are_wrong_together_are_found(verifier: Verifier) -> None:
    """Configurations are combined: each may be right beside the other's first."""
    kernels = [kernel(config(128), config(256), name=f"{name}_kernel") for name in ("first", "second")]
    verdict = verify(verifier, *kernels, TWO.format("pass", "out = a if blocks == [256, 256] else out"))
    assert (verdict.reached, verdict.outcome) == (Stage.FULL, Outcome.WRONG_VALUES)
    assert message(verdict).count("BLOCK=256") == 2
    assert verify(verifier, *kernels, TWO.format("pass", "pass")).correct


def test_a_tuner_behind_another_ones_choice_is_found(verifier: Verifier) -> None:
    """Its configurations are run, though the recorded plans do not launch it."""
    one = kernel(config(128), config(256), name="first_kernel")
    two = kernel(config(128), config(512, 0), name="second_kernel")
    skip = "if blocks == [128]:\n            return out\n        out = torch.empty_like(a)"
    verdict = verify(verifier, one, two, TWO.format(skip, "pass"))
    assert verdict.reached is Stage.FULL
    assert "BLOCK=512, PART=0" in message(verdict)


def test_host_code_that_follows_the_choice_is_recorded_with_it(verifier: Verifier) -> None:
    """PyTorch does not compute for any configuration."""
    follower = """
class ModelNew(nn.Module):
    def forward(self, a):
        out, n = torch.empty_like(a), a.numel()
        relu_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](a, out, n)
        return torch.relu(a) if relu_kernel.best_config.kwargs["BLOCK"] == 256 else out
"""
    verdict = verify(verifier, kernel(config(128), config(256)), follower)
    assert (verdict.reached, verdict.outcome) == (Stage.FULL, Outcome.TORCH_ARITHMETIC)


PRUNE = """
def prune(configs, args, **kwargs):
    return [config for config in configs if config.kwargs["PART"] {} or args["n"] > 50_000]

"""
OPTIONS = ', prune_configs_by={"early_config_prune": prune}'


def test_a_configuration_for_declared_sizes_alone_is_sampled_there(verifier: Verifier) -> None:
    """Pruned at small sizes, it is looked at where it would be chosen."""
    blocks = config(128), config(128, 0)
    verdict = verify(verifier, PRUNE.format("== 1"), kernel(*blocks, options=OPTIONS), MODEL)
    assert verdict.reached is Stage.FULL
    assert "PART=0" in message(verdict)


def test_a_right_configuration_for_declared_sizes_alone_is_accepted(verifier: Verifier) -> None:
    """Pruning by size is no offence."""
    blocks = config(128), config(512, 2)
    assert verify(verifier, PRUNE.format("== 1"), kernel(*blocks, options=OPTIONS), MODEL).correct


@pytest.mark.parametrize(
    "line", ["tl.static_assert(PART > 0)", "x = tl.zeros((BLOCK * 100000 ** (1 - PART),), tl.int8)"]
)
def test_a_configuration_that_does_not_compile_is_never_chosen(verifier: Verifier, line: str) -> None:
    """A tuner leaves it out, and so does the audit."""
    assert verify(verifier, kernel(config(128), config(128, 0), line=line), MODEL).correct


def test_a_configuration_that_compiles_for_declared_sizes_alone_is_sampled_there(verifier: Verifier) -> None:
    """A kernel cannot hide one by failing to compile at small sizes."""
    line = "tl.static_assert((PART > 0) | (BIG > 0))\n    mask = mask & (PART > 0)"
    source = kernel(config(128), config(128, 0), line=line).replace(
        "PART: tl.constexpr", "BIG: tl.constexpr, PART: tl.constexpr"
    )
    verdict = verify(verifier, source, MODEL.replace("out, n)", "out, n, BIG=n > 50_000)"))
    assert verdict.reached is Stage.FULL
    assert "PART=0" in message(verdict)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(0, 2**63 - 1))
def test_as_many_configurations_as_fit_are_drawn(counts: list[int], seed: int) -> None:
    """All combinations below the bound; beyond it so many, with as many of each tuner's as fit."""
    chosen = draw_choices(tuple(counts), seed)
    assert len(set(chosen)) == len(chosen) == min(math.prod(counts), MOST_CONFIGURATIONS)
    for position, count in enumerate(counts):
        taken = {choice[position] for choice in chosen}
        assert taken <= set(range(count))
        assert len(taken) == min(count, MOST_CONFIGURATIONS)
    assert draw_choices(tuple(counts), seed) == chosen
