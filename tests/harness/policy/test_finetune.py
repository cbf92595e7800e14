"""Fine-tuning and adapters on tiny models with random weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tritonrl.core.config import PolicyConfig
from tritonrl.harness.learner import Sampling, Training
from tritonrl.harness.policy import finetune as module
from tritonrl.harness.policy.adapters import attach_adapter, load_adapter, reset_adapter, save_adapter
from tritonrl.harness.policy.dropout import keep_mask
from tritonrl.harness.policy.finetune import finetune, learning_rate_share
from tritonrl.harness.policy.learner import PolicyLearner
from tritonrl.harness.policy.load import LoraShape, Policy, load_policy

MakePolicy = Callable[[str], Policy]
PAIRS = [(f"write {word}", f"def {word}(x):\n    return x * {number}") for number, word in enumerate("abcd", start=1)]


def weights(policy: Policy) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in policy.model.named_parameters() if "lora_" in name}


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_loss_falls(make_policy: MakePolicy, architecture: str) -> None:
    """Four pairs are learned, by the adapter alone: the base model's weights stay as they were."""
    policy = make_policy(architecture)
    base = {name: weight.detach().clone() for name, weight in policy.model.named_parameters()}
    attach_adapter(policy, LoraShape(), 0)
    points = finetune(policy, PAIRS, epochs=40, learning_rate=5e-3, batch_size=4, seed=0)
    assert points[-1].loss < 0.5 * points[0].loss
    unloaded = policy.model.unload()
    assert all(torch.equal(weight, base[name]) for name, weight in unloaded.named_parameters())


def test_equal_calls_give_equal_adapters(make_policy: MakePolicy, tmp_path: Path) -> None:
    """One seed gives one adapter, bit for bit, whatever was drawn before; another seed gives another."""
    saved = []
    for run, seed in enumerate((3, 3, 4)):
        policy = make_policy("llama")
        torch.rand(run + 1)
        attach_adapter(policy, LoraShape(), 1)
        points = finetune(policy, PAIRS, epochs=2, learning_rate=1e-3, batch_size=3, seed=seed)
        save_adapter(policy, tmp_path / str(run))
        saved.append((points, [path.read_bytes() for path in sorted((tmp_path / str(run)).iterdir())]))
    assert saved[0] == saved[1]
    assert saved[0] != saved[2]


def test_packed_loss_is_the_models_own(make_policy: MakePolicy) -> None:
    """Pairs in one row have the loss that they have in padded rows through the model's own forward pass."""
    for architecture in ("llama", "qwen2"):
        policy = make_policy(architecture)
        attach_adapter(policy, LoraShape(), 0)
        policy.model.eval()
        encoded = module.encode_pairs(policy, PAIRS)
        packed = module._loss_function(policy, encoded)(encoded)
        torch.testing.assert_close(packed, module._padded_loss(policy, encoded), rtol=1e-4, atol=1e-3)


def test_microbatches_do_not_matter(make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cutting a batch into microbatches leaves the step as it is, but for rounding."""
    results = []
    for limit in (4096, 40):
        monkeypatch.setattr(module, "MICROBATCH_TOKENS", limit)
        policy = make_policy("llama")
        attach_adapter(policy, LoraShape(dropout=0.0), 1)
        results.append(finetune(policy, PAIRS, epochs=2, learning_rate=1e-3, batch_size=4, seed=0))
    for whole, cut in zip(*results, strict=True):
        assert cut.loss == pytest.approx(whole.loss, rel=1e-4)


def test_no_pairs_is_no_step(make_policy: MakePolicy) -> None:
    """An RL round in which no candidate was worth keeping changes nothing."""
    policy = make_policy("llama")
    attach_adapter(policy, LoraShape(), 0)
    before = weights(policy)
    assert finetune(policy, [], epochs=2, learning_rate=1e-3, batch_size=4, seed=0) == ()
    assert all(torch.equal(weight, before[name]) for name, weight in weights(policy).items())


def test_training_needs_an_adapter(make_policy: MakePolicy) -> None:
    """Without an adapter there is nothing to train."""
    with pytest.raises(ValueError, match="no adapter"):
        finetune(make_policy("llama"), PAIRS, epochs=1, learning_rate=1e-3, batch_size=4, seed=0)


def test_adapter_round_trip(make_policy: MakePolicy, tmp_path: Path) -> None:
    """A saved adapter loads into a fresh policy with the same weights; a second save replaces the first whole."""
    policy = make_policy("llama")
    attach_adapter(policy, LoraShape(rank=4, alpha=8, dropout=0.1), 0)
    save_adapter(policy, tmp_path / "adapter")
    finetune(policy, PAIRS, epochs=2, learning_rate=1e-2, batch_size=4, seed=0)
    save_adapter(policy, tmp_path / "adapter")
    fresh = make_policy("llama")
    load_adapter(fresh, tmp_path / "adapter")
    assert fresh.lora == LoraShape(rank=4, alpha=8, dropout=0.1)
    loaded, trained = weights(fresh), weights(policy)
    assert loaded.keys() == trained.keys()
    assert all(torch.equal(weight, trained[name]) for name, weight in loaded.items())
    assert [path.name for path in tmp_path.iterdir()] == ["adapter"]


def test_reset_changes_nothing_any_more(make_policy: MakePolicy) -> None:
    """After a reset the policy computes what its base computes."""
    policy = make_policy("llama")
    tokens = torch.tensor([policy.encode_prompt("hello")])
    before = policy.model(tokens).logits
    attach_adapter(policy, LoraShape(), 0)
    finetune(policy, PAIRS, epochs=2, learning_rate=1e-2, batch_size=4, seed=0)
    changed = policy.model(tokens).logits
    reset_adapter(policy, 0)
    assert torch.equal(policy.model(tokens).logits, before)
    assert not torch.allclose(changed, before)


def test_learner_keeps_no_state(make_policy: MakePolicy, tmp_path: Path) -> None:
    """A learner's results depend on the adapter's folder and not on the calls before."""
    sampling = Sampling(temperature=1.0, top_p=1.0, max_new_tokens=12)
    training = Training(
        epochs=3,
        learning_rate=1e-2,
        batch_size=4,
        warmup_share=0.1,
        lora_rank=4,
        lora_alpha=8,
        lora_dropout=0.05,
        seed=5,
    )
    learner, done = PolicyLearner(make_policy("llama")), list[int]()
    base = learner.sample(None, ["a", "b"], [1, 2], sampling, done.append)
    losses = learner.finetune(None, PAIRS, training, tmp_path / "one", done.append)
    tuned = learner.sample(tmp_path / "one", ["a", "b"], [1, 2], sampling, done.append)
    learner.finetune(tmp_path / "one", PAIRS, training, tmp_path / "two", done.append)
    assert learner.sample(None, ["a", "b"], [1, 2], sampling, done.append) == base
    assert learner.sample(tmp_path / "one", ["a", "b"], [1, 2], sampling, done.append) == tuned
    assert learner.finetune(None, PAIRS, training, tmp_path / "again", done.append) == losses
    assert tuned != base


def test_learning_rate_rises_and_falls() -> None:
    """The rate warms up, peaks at its full value, falls, and is never zero for a step that is taken."""
    shares = [learning_rate_share(step, 20, 0.2) for step in range(20)]
    assert max(shares) == 1.0
    assert shares[:5] == sorted(shares[:5])
    assert shares[4:] == sorted(shares[4:], reverse=True)
    assert min(shares) > 0.0


def test_dropout_drops_its_share() -> None:
    """The mask drops the share that it is told to, and follows torch's seed."""
    for probability in (0.0, 0.05, 0.5):
        torch.manual_seed(0)
        mask = keep_mask(torch.Size((301, 333)), probability, torch.device("cpu"))
        assert 1.0 - mask.float().mean().item() == pytest.approx(probability, abs=0.005)
        torch.manual_seed(0)
        assert torch.equal(mask, keep_mask(torch.Size((301, 333)), probability, torch.device("cpu")))


def test_eight_bit_weights_learn() -> None:
    """The shipped policy with 8-bit weights is fine-tuned through its adapter, and its 8-bit weights stay."""
    policy = load_policy(PolicyConfig(quantization="8bit"), "cpu")
    quantized = policy.model.get_submodule("model.layers.0.mlp.up_proj").weight
    assert quantized.dtype is torch.int8
    before = quantized.detach().clone()
    attach_adapter(policy, LoraShape(), 0)
    points = finetune(policy, PAIRS, epochs=20, learning_rate=5e-3, batch_size=4, seed=0)
    assert points[-1].loss < 0.5 * points[0].loss
    assert torch.equal(quantized, before)
