"""States of a policy by folder: an adapter, all weights, and an adapter over such weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from attrs import evolve
from transformers import AutoModelForCausalLM, AutoTokenizer
from tritonrl.core.recipe.learner import Sampling, Training
from tritonrl.harness.errors import DivergedError, UsageError
from tritonrl.harness.policy.learner import PolicyLearner
from tritonrl.harness.policy.model.load import Policy
from tritonrl.harness.policy.model.states import copy_state, enter_state, identify_state, open_weights
from tritonrl.harness.policy.training.finetune import Execution, finetune

MakePolicy = Callable[[str], Policy]
PAIRS = [(f"write {word}", f"def {word}(x):\n    return x * {number}") for number, word in enumerate("abcd", start=1)]
TOKENS = torch.tensor([[5, 6, 7, 8, 9]])
FULL = Training(
    epochs=60,
    learning_rate=1e-3,
    batch_size=2,
    warmup_share=0.0,
    lora_rank=4,
    lora_alpha=8,
    lora_dropout=0.0,
    seed=0,
    method="full",
)
LORA = evolve(FULL, method="lora", learning_rate=1e-2)


def logits(policy: Policy, folder: Path | None) -> torch.Tensor:
    """The policy's logits in that state."""
    enter_state(policy, folder)
    with torch.no_grad():
        found: torch.Tensor = policy.model(TOKENS).logits
    return found


@pytest.fixture(scope="module")
def folders(make_policy: MakePolicy, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """States that training has left: all weights, an adapter over them, and an adapter alone."""
    learner, root = PolicyLearner(make_policy("llama")), tmp_path_factory.mktemp("states")
    found = {name: root / name / "adapter" for name in ("full", "over", "lora")}
    losses = learner.finetune(None, PAIRS, FULL, found["full"], lambda _: None)
    assert losses[-1] < 0.5 * losses[0]
    learner.finetune(found["full"], PAIRS[:2], LORA, found["over"], lambda _: None)
    learner.finetune(None, PAIRS, LORA, found["lora"], lambda _: None)
    return found


def test_each_state_is_entered_from_each_other(make_policy: MakePolicy, folders: dict[str, Path]) -> None:
    """A state gives the same logits whatever the policy was before, and the base model's come back."""
    states: list[Path | None] = [None, *folders.values()]
    expected = [logits(make_policy("llama"), folder) for folder in states]
    for number, one in enumerate(expected):
        assert not any(torch.allclose(one, other, atol=1e-3) for other in expected[:number])
    policy = make_policy("llama")
    for number in (1, 2, 3, 0, 2, 0, 1, 3, 2, 1, 0):
        assert torch.equal(logits(policy, states[number]), expected[number]), number


def test_all_weights_are_a_model_of_transformers(make_policy: MakePolicy, folders: dict[str, Path]) -> None:
    """The folder of a full fine-tuning is read by transformers, and computes there what it does here."""
    theirs = AutoModelForCausalLM.from_pretrained(folders["full"]).eval()
    assert torch.allclose(theirs(TOKENS).logits, logits(make_policy("llama"), folders["full"]), atol=1e-6)
    assert len(AutoTokenizer.from_pretrained(folders["full"])) == theirs.config.vocab_size


def test_a_copied_state_is_the_same(make_policy: MakePolicy, folders: dict[str, Path], tmp_path: Path) -> None:
    """A copy of any state is identified and computes as the original, which different states never are."""
    assert len({identify_state(folder) for folder in folders.values()}) == 3
    for name, folder in folders.items():
        copy_state(folder, tmp_path / "copies" / name)
        assert identify_state(tmp_path / "copies" / name) == identify_state(folder)
    enough = logits(make_policy("llama"), tmp_path / "copies" / "over")
    assert torch.equal(enough, logits(make_policy("llama"), folders["over"]))
    with pytest.raises(UsageError, match=r"no adapter_config\.json"):
        identify_state(tmp_path)


def test_sampling_reads_all_weights(make_policy: MakePolicy, folders: dict[str, Path]) -> None:
    """What a full fine-tuning has learned is what is sampled greedily afterwards."""
    learner = PolicyLearner(make_policy("llama"))
    greedy = Sampling(temperature=0.0, top_p=1.0, max_new_tokens=40)
    prompts = [prompt for prompt, _ in PAIRS]
    written = learner.sample(folders["full"], prompts, range(4), greedy, lambda _: None)
    assert sum(one.text == answer for one, (_, answer) in zip(written, PAIRS, strict=True)) >= 3


def test_weights_of_another_model_are_refused(make_policy: MakePolicy, folders: dict[str, Path]) -> None:
    """Other names of weights end in a usage error that names one; so does going on in full from an adapter."""
    with pytest.raises(UsageError, match="another model's"):
        enter_state(make_policy("qwen2"), folders["full"])
    with pytest.raises(UsageError, match="holds an adapter"):
        open_weights(make_policy("llama"), folders["lora"])


def test_a_full_training_that_diverges_leaves_the_base_model(make_policy: MakePolicy, tmp_path: Path) -> None:
    """After a failure the next state is entered from the policy's own weights."""
    policy = make_policy("llama")
    before = logits(policy, None)
    with pytest.raises(DivergedError):
        PolicyLearner(policy).finetune(None, PAIRS, evolve(FULL, learning_rate=1e38), tmp_path / "x", lambda _: None)
    assert torch.equal(logits(policy, None), before)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_all_weights_are_trained_alike_in_fixed_sizes(
    make_policy: MakePolicy, architecture: str, dtype: torch.dtype
) -> None:
    """Rows that are filled up, and several microbatches, take the steps of plain ones; every weight moves."""
    found = []
    for execution in (Execution(microbatch_tokens=4096), Execution(microbatch_tokens=60, capture=True)):
        policy = make_policy(architecture)
        policy.model.to(dtype)
        before = {name: weight.detach().clone() for name, weight in policy.model.named_parameters()}
        open_weights(policy, None)
        points = finetune(policy, PAIRS, epochs=3, learning_rate=1e-3, batch_size=4, seed=0, execution=execution)
        found.append([point.loss for point in points])
        assert all(not torch.equal(weight, before[name]) for name, weight in policy.model.named_parameters())
    assert found[1] == pytest.approx(found[0], rel=1e-3 if dtype == torch.float32 else 2e-2)
    assert found[0][-1] < found[0][0]


def test_the_heads_gradient_is_that_of_cross_entropy() -> None:
    """Where the head is trained, its gradient in chunks, weighted or not, is that of the plain loss."""
    from tritonrl.harness.policy.training.chunked_loss import answer_loss

    torch.manual_seed(0)
    hidden, head = torch.randn(37, 16, requires_grad=True), torch.randn(50, 16, requires_grad=True)
    targets = torch.randint(50, (37,))
    for weights in (None, torch.randn(37)):
        losses = torch.nn.functional.cross_entropy(hidden @ head.t(), targets, reduction="none")
        plain = losses.sum() if weights is None else losses @ weights
        expected = torch.autograd.grad(plain, (hidden, head))
        found = torch.autograd.grad(answer_loss(hidden, targets, head, weights), (hidden, head))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
