"""A tuner measures on the call's own tensors: what its launches leave must not reach the result."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.candidate import Variant
from tritonrl.core.corpus import render
from tritonrl.core.outcome import Outcome, Stage
from tritonrl.core.plan import (
    Argument,
    ArgumentKind,
    Buffer,
    BufferKind,
    Copy,
    Fill,
    Kernel,
    Launch,
    LaunchPlan,
    Step,
    View,
)
from tritonrl.core.recipe.extensions import AUDIT, Extensions, VerifierSpec
from tritonrl.harness.verification.checks.first_calls import count_repeated_updates, find_last
from tritonrl.harness.verification.verifier import Verifier
from tritonrl.stages.checks.configurations import ConfigurationsReport

RELU = render("l1-unary-7fce4ae6f9f1a504")
SOURCE = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

COUNTS = []
CALLS = [0]


def clear(nargs, reset_only=False):
    nargs["out_ptr"].zero_()


def clear_in_a_configuration(nargs):
    nargs["out_ptr"].zero_()


def clear_without_being_asked_to_reset(nargs):
    nargs["out_ptr"].zero_()


def count(nargs, reset_only=False):
    nargs["out_ptr"].zero_()
    CALLS[0] = min(CALLS[0] + 1, 50)


def keep_one(configs, named_args, **kwargs):
    return configs[:1]


@triton.autotune(configs=[{configs}], key=["n"]{options})
@triton.jit
def relu_kernel(a_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask, other=0.0)
    {line}


class ModelNew(nn.Module):
    def forward(self, a):
        {begin}
        n = a.numel()

        def grid(meta):
            {grid}
            return (triton.cdiv(n, meta["BLOCK"]),)

        relu_kernel[grid](a, out, n)
        return out
"""
ADD = "tl.atomic_add(out_ptr + offs, tl.maximum(a, 0.0), mask=mask)"
STORE = "tl.store(out_ptr + offs, tl.maximum(a, 0.0), mask=mask)"
IN_PLACE = "tl.store(out_ptr + offs, tl.maximum(tl.load(out_ptr + offs, mask=mask), 0.0), mask=mask)"
HALVE = "y = tl.load(out_ptr + offs, mask=mask)\n    tl.store(out_ptr + offs, tl.maximum(2 * a - y, 0.0), mask=mask)"
NEGATE = "y = tl.load(out_ptr + offs, mask=mask)\n    tl.store(out_ptr + offs, tl.maximum(a, 0.0) - y, mask=mask)"
ZEROS, EMPTY, COPY = "out = torch.zeros_like(a)", "out = torch.empty_like(a)", "out = a.clone()"
TWO = 'triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})'
ONE = 'triton.Config({"BLOCK": 128})'
HOOKED = ", ".join(f'triton.Config({{"BLOCK": {block}}}, pre_hook=clear_in_a_configuration)' for block in (128, 256))


def source(line: str, begin: str, options: str = "", configs: str = TWO, grid: str = "pass") -> str:
    """A tuned kernel with this last line, on memory that begins so."""
    values = {"line": line, "begin": begin, "options": options, "configs": configs, "grid": grid}
    text = SOURCE
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


RIGHT = {
    "stores": source(STORE, EMPTY),
    "adds to what is reset": source(ADD, ZEROS, ', reset_to_zero=["out_ptr"]'),
    "adds to what a hook clears": source(ADD, ZEROS, ", pre_hook=clear"),
    "adds to what each configuration clears": source(ADD, EMPTY, configs=HOOKED),
    "adds with one configuration": source(ADD, ZEROS, configs=ONE),
    "in place, and once is enough": source(IN_PLACE, COPY),
    "in place on what is restored": source(HALVE, COPY, ', restore_value=["out_ptr"]'),
    "pruned to one": source(STORE, EMPTY, ', prune_configs_by={"early_config_prune": keep_one}'),
}
WRONG = {
    "adds": (source(ADD, ZEROS), Outcome.WRONG_VALUES),
    "adds, pruned to one": (
        source(ADD, ZEROS, ', prune_configs_by={"early_config_prune": keep_one}'),
        Outcome.WRONG_VALUES,
    ),
    "adds, another tensor is reset": (source(ADD, ZEROS, ', reset_to_zero=["a_ptr"]'), Outcome.INPUT_MUTATED),
    "twice is never": (source(NEGATE, ZEROS), Outcome.WRONG_VALUES),
    "a hook of another form": (
        source(ADD, ZEROS, ", pre_hook=clear_without_being_asked_to_reset"),
        Outcome.FORWARD_FAILED,
    ),
    "a hook that counts": (source(ADD, ZEROS, ", pre_hook=count"), Outcome.NOT_REPRODUCIBLE),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_launch_that_may_be_repeated_is_accepted(verifier: Verifier, name: str) -> None:
    """Whatever makes it so."""
    verdict = verifier.verify(RELU.task, RIGHT[name], AUDIT)
    assert verdict.correct, [result.message for result in verdict.stages]


@pytest.mark.parametrize("name", WRONG)
def test_a_launch_that_may_not_be_repeated_is_refused(verifier: Verifier, name: str) -> None:
    """By the audit alone, with words about the call that measures where its values are wrong."""
    text, outcome = WRONG[name]
    verdict = verifier.verify(RELU.task, text, AUDIT)
    assert (verdict.reached, verdict.outcome) == (Stage.FULL, outcome)
    if outcome is Outcome.WRONG_VALUES:
        assert "reset_to_zero" in next(result.message for result in verdict.stages if result.stage is Stage.FULL)
    assert verifier.verify(RELU.task, text, VerifierSpec.for_training(Extensions())).correct


def test_each_choice_has_a_first_call_of_its_own(verifier: Verifier) -> None:
    """Three launches where the last is another one, two where it is the same, and none without a choice.

    Beyond the declared sizes one choice is looked at for each variant.
    """
    found = verifier.gather(RELU.task, RIGHT["stores"], AUDIT).evidence
    calls = found.report("first_calls")
    assert isinstance(calls, ConfigurationsReport)
    assert [run.choice for run in calls.runs if run.report.variant is Variant.ORIGINAL] == [(0,), (1,)]
    assert [run.report.variant for run in calls.runs[2:]] == [Variant.BEYOND, Variant.TWICE]
    assert found.compile is not None
    assert all(recording.first_plan is None for recording in found.compile.recordings)
    single = verifier.gather(RELU.task, RIGHT["adds with one configuration"], AUDIT).evidence.report("first_calls")
    assert single == ConfigurationsReport(runs=())


def view(buffer: int) -> View:
    """One element of a buffer."""
    return View(buffer=buffer, offset=0, shape=(1,), stride=(1,), dtype="float32")


def launch(kernel: int, *buffers: int) -> Launch:
    """A launch on these buffers, by the parameters a and b."""
    arguments = tuple(
        Argument(name=name, kind=ArgumentKind.VIEW, view=view(buffer))
        for name, buffer in zip("ab", buffers, strict=True)
    )
    return Launch(kernel=kernel, grid=(1, 1, 1), arguments=arguments)


STORES = Kernel(qualname="stores", source_sha256="", reads=("a",), writes=("b",))
ADDS = Kernel(qualname="adds", source_sha256="", reads=("a", "b"), writes=("b",))


@pytest.mark.parametrize(
    ("steps", "count"),
    [
        ((launch(1, 0, 1),), 0),
        ((launch(1, 0, 1), launch(1, 0, 1)), 1),
        ((launch(0, 0, 1), launch(1, 0, 1)), 1),
        ((launch(1, 0, 1), Fill(target=view(1), value=0.0), launch(1, 0, 1)), 0),
        ((launch(1, 0, 1), Copy(source=view(2), target=view(1)), launch(1, 0, 1)), 0),
        ((launch(0, 0, 1), launch(0, 0, 1), launch(0, 1, 2)), 0),
        ((launch(0, 1, 1), launch(0, 1, 1), launch(0, 1, 1)), 2),
    ],
)
def test_updates_of_what_a_launch_has_left_are_counted(steps: tuple[Step, ...], count: int) -> None:
    """Whatever names the memory has, until something resets it."""
    buffers = tuple(Buffer(kind=BufferKind.TEMPORARY, name="", dtype="float32", num_elements=1) for _ in range(3))
    plan = LaunchPlan(buffers=buffers, kernels=(STORES, ADDS), steps=steps, outputs=(view(1),))
    assert count_repeated_updates(plan).total() == count


CHOICES = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple), min_size=1, max_size=8)


@given(choices=CHOICES)
def test_the_last_of_each_tuner_is_one_of_its_choices(choices: list[tuple[int, ...]]) -> None:
    """And none comes after it."""
    last = find_last(choices)
    assert len(last) == max(map(len, choices))
    for number, at in enumerate(last):
        having = [choice[number] for choice in choices if number < len(choice)]
        assert at in having
        assert all(other <= at for other in having)
