"""Steps of fixed sizes: what is filled up counts nothing, and captured graphs compute what is not captured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from attrs import asdict, evolve
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.config import PolicyConfig
from tritonrl.harness.policy.model.load import LoraShape, Policy, load_policy
from tritonrl.harness.policy.model.lora_adapters import attach_adapter
from tritonrl.harness.policy.model.transformer import attend_by_borders, attend_by_parts
from tritonrl.harness.policy.training import cuda_graphs as steps_module
from tritonrl.harness.policy.training import finetune as finetune_module
from tritonrl.harness.policy.training.cuda_graphs import (
    GRAIN,
    Inputs,
    Sizes,
    StaticSteps,
    even_weights,
    fill_up,
    sizes_of,
)
from tritonrl.harness.policy.training.descent import Gradients
from tritonrl.harness.policy.training.finetune import Execution, choose_execution, finetune, make_step
from tritonrl.harness.policy.training.packing import Pair

MakePolicy = Callable[[str], Policy]
PAIRS = [(f"write {word}", f"def {word}(x):\n    return x * {number}") for number, word in enumerate("abcde", start=1)]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@given(st.lists(st.tuples(st.integers(2, 900), st.floats(0.0, 1.0)), min_size=1, max_size=40), st.integers(1, 10_000))
def test_rows_are_filled_up(shapes: list[tuple[int, float]], num_answers: int) -> None:
    """A filled row holds the pairs, one more document and nothing else; what was added to answers weighs nothing."""
    pairs: list[Pair] = [
        ([number] * length, max(1, int(share * (length - 1)))) for number, (length, share) in enumerate(shapes)
    ]
    sizes = sizes_of(pairs)
    inputs = fill_up(pairs, sizes, even_weights(pairs, num_answers))
    total = sum(length for length, _ in shapes)
    assert total <= sizes.tokens == len(inputs.tokens) == len(inputs.positions) < total + GRAIN
    assert len(inputs.answers) == inputs.numbers.shape[1] == sizes.answers <= sizes.tokens
    borders = inputs.borders.tolist()
    assert len(borders) == sizes.documents + 1
    assert borders == sorted(borders)
    assert borders[: len(pairs) + 1] == [sum(length for length, _ in shapes[:end]) for end in range(len(pairs) + 1)]
    assert set(borders[len(pairs) + 1 :]) == {sizes.tokens}
    real = sum(len(tokens) - prompt for tokens, prompt in pairs)
    assert float(inputs.numbers.sum()) == pytest.approx(real / num_answers, rel=1e-4)
    assert int(inputs.positions.max()) < max(GRAIN, *(length for length, _ in shapes))


def test_borders_are_parts() -> None:
    """A mask made of borders, documents of no tokens among them, is attention within parts."""
    torch.manual_seed(0)
    queries, keys, values = torch.randn(1, 4, 9, 8), torch.randn(1, 2, 9, 8), torch.randn(1, 2, 9, 8)
    borders = torch.tensor([0, 4, 6, 9, 9, 9], dtype=torch.int32)
    expected = attend_by_parts(queries, keys, values, [4, 2, 3])
    torch.testing.assert_close(attend_by_borders(queries, keys, values, borders), expected)


def test_gradients_are_one_tensor() -> None:
    """What is added to a weight's gradient is in the common tensor, the loss is its end, and clearing empties all."""
    weights = [torch.nn.Parameter(torch.ones(2, 3)), torch.nn.Parameter(torch.ones(4))]
    gradients = Gradients(weights)
    torch.autograd.backward((weights[0] * 2).sum() + (weights[1] * 3).sum())
    gradients.loss.add_(7.0)
    assert gradients.flat.tolist() == [2.0] * 6 + [3.0] * 4 + [7.0]
    gradients.clear()
    assert not any(weight.grad.any() for weight in weights if weight.grad is not None)
    assert float(gradients.loss) == 0.0


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_fixed_sizes_change_nothing(make_policy: MakePolicy, architecture: str) -> None:
    """Training with rows that are filled up takes the steps that training without does, in several microbatches too."""
    results = []
    for execution in (Execution(microbatch_tokens=4096), Execution(microbatch_tokens=60, capture=True)):
        policy = make_policy(architecture)
        attach_adapter(policy, LoraShape(dropout=0.0), 1)
        finetuned = finetune(policy, PAIRS, epochs=2, learning_rate=1e-2, batch_size=4, seed=0, execution=execution)
        state = {name: weight.detach() for name, weight in policy.model.named_parameters() if "lora_" in name}
        results.append((finetuned, state))
    (plain, expected), (fixed, found) = results
    assert [point.loss for point in fixed] == pytest.approx([point.loss for point in plain], rel=1e-4)
    for name, weight in expected.items():
        assert float((found[name] - weight).norm() / weight.norm()) < 5e-3, name
        # where a gradient is next to nothing, Adam makes a whole step of how it was rounded; a GPU has no fixed order
        if weight.device.type == "cpu":
            close = torch.isclose(found[name], weight, rtol=1e-2, atol=2e-4)
            assert float(close.float().mean()) > 0.99, name


def test_a_cpu_captures_nothing(make_policy: MakePolicy) -> None:
    """Where there is no GPU, rows are not filled up for nothing."""
    assert not choose_execution(make_policy("llama"), 10**9).capture


class RecordedSteps(StaticSteps):
    """Captures without a GPU: a replay computes anew, and `captured` has each size with the microbatches before it."""

    captured: ClassVar[list[tuple[Sizes, int]]]
    num_computed: ClassVar[int]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.captures = True

    def __call__(self, pairs: Sequence[Pair], numbers: torch.Tensor) -> torch.Tensor:
        loss = super().__call__(pairs, numbers)
        type(self).num_computed += 1
        return loss

    def _capture(self, filled: Inputs) -> tuple[Inputs, Any, torch.Tensor]:
        inputs, loss = copy_of(filled, torch.device("cpu")), torch.zeros(1)
        sizes = Sizes(tokens=len(filled.tokens), answers=len(filled.answers), documents=len(filled.borders) - 1)
        self.captured.append((sizes, self.num_computed))
        return inputs, SimpleNamespace(replay=lambda: loss.copy_(self._run(inputs))), loss


class LaunchedSteps(StaticSteps):
    """The same microbatches with no graph at all."""

    def prepare(self, coming: object, on_captured: object = None) -> None: ...

    def __call__(self, pairs: Sequence[Pair], numbers: torch.Tensor) -> torch.Tensor:
        return self._run(copy_of(fill_up(pairs, sizes_of(pairs), numbers), self.head.device))


def copy_of(inputs: Inputs, device: torch.device) -> Inputs:
    """The same inputs in other tensors, on a device."""
    return Inputs(**{name: tensor.clone().to(device) for name, tensor in asdict(inputs, recurse=False).items()})


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> type[RecordedSteps]:
    """Recorded captures in place of those that need a GPU."""
    monkeypatch.setattr(RecordedSteps, "captured", [], raising=False)
    monkeypatch.setattr(RecordedSteps, "num_computed", 0, raising=False)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self)
    monkeypatch.setattr(finetune_module, "StaticSteps", RecordedSteps)
    return RecordedSteps


def test_sizes_are_captured_before_the_first_step(
    make_policy: MakePolicy, recorded: type[RecordedSteps], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each size of all epochs is captured once, the largest first, and no step captures; dropout draws the same."""
    monkeypatch.setattr(steps_module, "GRAIN", 64)
    monkeypatch.setattr(steps_module, "CAPTURED_FROM_USES", 1)
    long = [(prompt, answer + " + x" * 30 * (number % 3)) for number, (prompt, answer) in enumerate(PAIRS)]
    num_told, results = [0, 0], []
    for number, steps in enumerate((recorded, LaunchedSteps)):
        monkeypatch.setattr(finetune_module, "StaticSteps", steps)
        policy = make_policy("llama")
        attach_adapter(policy, LoraShape(rank=2, dropout=0.3), 1)

        def count(number: int = number) -> None:
            num_told[number] += 1

        execution = Execution(microbatch_tokens=200, capture=True)
        options = {"epochs": 2, "learning_rate": 1e-2, "batch_size": 3, "seed": 0, "execution": execution}
        results.append(finetune(policy, long, on_captured=count, **options))
    sizes = [one for one, _ in recorded.captured]
    assert len(sizes) == len(set(sizes)) > 1
    assert num_told == [len(sizes), 0]
    assert sizes == sorted(sizes, key=lambda one: (one.tokens, one.answers, one.documents), reverse=True)
    assert {before for _, before in recorded.captured} == {0}
    assert recorded.num_computed > len(sizes)
    assert results[0] == results[1]


def test_sizes_that_come_too_seldom_are_computed_without(
    make_policy: MakePolicy, recorded: type[RecordedSteps], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two sizes the one that comes often enough is captured; the other is computed to the same loss."""
    monkeypatch.setattr(steps_module, "CAPTURED_FROM_USES", 3)
    policy = make_policy("llama")
    attach_adapter(policy, LoraShape(dropout=0.0), 1)
    gradients = Gradients([weight for weight in policy.model.parameters() if weight.requires_grad])
    short: list[Pair] = [([7] * 30, 20)]
    execution = Execution(microbatch_tokens=4096, capture=True)
    step = make_step(policy, short, execution, gradients, [short, short, short * 40, short, short * 40])
    losses = [float(step(part, 10)) for part in (short, short * 40, short * 40)]
    assert [sizes.tokens for sizes, _ in recorded.captured] == [sizes_of(short).tokens]
    assert losses[1:] == pytest.approx([40 * losses[0]] * 2, rel=1e-4)


@needs_gpu
@pytest.mark.parametrize("limit", [8192, 2048])
def test_capturing_draws_nothing(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """On a GPU dropout draws with graphs what it draws without, however many sizes are captured."""
    monkeypatch.setattr(steps_module, "CAPTURED_FROM_USES", 1)
    pairs = [(f"write {number}", f"def f(x):\n    return x{' + 1' * 40 * (number % 7)}") for number in range(24)]
    losses = []
    for steps in (StaticSteps, LaunchedSteps):
        monkeypatch.setattr(finetune_module, "StaticSteps", steps)
        policy = load_policy(PolicyConfig(name="nano"))
        attach_adapter(policy, LoraShape(dropout=0.5), 1)
        for name, weight in policy.model.named_parameters():
            if "lora_B" in name:  # else the first losses do not depend on what is dropped
                torch.nn.init.normal_(weight, std=0.05, generator=torch.Generator("cuda").manual_seed(0))
        execution = Execution(microbatch_tokens=limit, capture=True)
        points = finetune(policy, pairs, epochs=1, learning_rate=1e-6, batch_size=6, seed=0, execution=execution)
        losses.append([point.loss for point in points])
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@needs_gpu
def test_captured_steps_are_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU captured, compiled and plain steps reach about the same losses, with several sizes of batches."""
    monkeypatch.setattr(steps_module, "CAPTURED_FROM_USES", 2)
    pairs = [
        (f"write {number}", f"def f(x):\n    return x * {number}" + " + 1" * 40 * (number % 7)) for number in range(48)
    ]
    losses = []
    plain = Execution(microbatch_tokens=8192)
    for execution in (plain, evolve(plain, capture=True), evolve(plain, microbatch_tokens=2048, capture=True)):
        policy = load_policy(PolicyConfig(name="nano"))
        attach_adapter(policy, LoraShape(dropout=0.0), 1)
        points = finetune(policy, pairs, epochs=2, learning_rate=2e-3, batch_size=8, seed=0, execution=execution)
        losses.append([point.loss for point in points])
    for found in losses[1:]:
        assert found == pytest.approx(losses[0], rel=0.05)
    assert losses[0][-1] < 0.5 * losses[0][0]
