"""Fine-tuning and adapters on tiny models with random weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM
from tritonrl.core.config import PolicyConfig
from tritonrl.core.recipe.learner import Sampling, Training, TrainingStep
from tritonrl.harness.errors import DivergedError, UsageError
from tritonrl.harness.policy.learner import PolicyLearner
from tritonrl.harness.policy.model.fused_lora import keep_mask, project_together
from tritonrl.harness.policy.model.load import LoraShape, Policy, load_policy
from tritonrl.harness.policy.model.lora_adapters import attach_adapter, load_adapter, reset_adapter, save_adapter
from tritonrl.harness.policy.model.transformer import Attend, attend_densely
from tritonrl.harness.policy.training import chunked_loss
from tritonrl.harness.policy.training import finetune as module
from tritonrl.harness.policy.training.finetune import (
    Execution,
    encode_pairs,
    finetune,
    learning_rate_share,
    make_loss,
    padded_loss,
)
from tritonrl.harness.policy.training.packing import Pair

MakePolicy = Callable[[str], Policy]
PAIRS = [(f"write {word}", f"def {word}(x):\n    return x * {number}") for number, word in enumerate("abcd", start=1)]

EXECUTIONS = [
    pytest.param(Execution(microbatch_tokens=4096), id="eager"),
    pytest.param(Execution(microbatch_tokens=4096, recompute=True), id="recomputed"),
    pytest.param(Execution(microbatch_tokens=4096, compile=True), id="compiled"),
]


def dense_within(lengths: Sequence[int], device: torch.device, dtype: torch.dtype, longest: int) -> Attend:
    """`attend_within` by a mask of equal documents."""
    documents = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    mask = (documents[:, None] == documents).tril()
    return partial(attend_densely, mask=mask)


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


@pytest.mark.parametrize("kind", ["linear", "llama3", "yarn"])
def test_scaled_positions_are_learned_as_the_model_reads_them(make_policy: MakePolicy, kind: str) -> None:
    """Pairs in one row have the loss of transformers' own forward pass where positions are scaled."""
    policy = make_policy("llama")
    config = policy.model.config
    scaling = {"factor": 4.0, "original_max_position_embeddings": 16, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    config.rope_parameters = {"rope_type": kind, "rope_theta": 10000.0, **scaling}
    config.max_position_embeddings = 64
    plain = policy.model
    policy.model = type(plain)(config)
    policy.model.load_state_dict(plain.state_dict())
    encoded = encode_pairs(policy, [*PAIRS, ("long " * 30, "x + " * 20)])
    compute = make_loss(policy, encoded)
    assert isinstance(compute, module.PackedLoss)
    packed, padded = compute(encoded).item(), padded_loss(policy, encoded).item()
    assert packed == pytest.approx(padded, rel=1e-5)
    policy.model = plain
    config.rope_parameters = {"rope_type": "default", "rope_theta": 10000.0}
    assert padded_loss(policy, encoded).item() != pytest.approx(padded, rel=1e-4)


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


def gradients(policy: Policy, compute: Callable[[list[Pair]], torch.Tensor]) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss of all pairs and the gradients of the adapter, whose second factors are not zero."""
    for name, weight in policy.model.named_parameters():
        if "lora_B" in name:
            weight.data.copy_(torch.empty_like(weight).normal_(std=0.1, generator=torch.Generator().manual_seed(1)))
    policy.model.eval()
    policy.model.zero_grad()
    loss = compute(encode_pairs(policy, PAIRS))
    torch.autograd.backward(loss)
    return float(loss.detach()), {
        name: weight.grad.clone() for name, weight in policy.model.named_parameters() if weight.grad is not None
    }


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_packed_gradients_are_the_models_own(
    make_policy: MakePolicy, architecture: str, execution: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs in one row have the loss and the gradients of padded rows through transformers' and peft's own modules."""
    if execution.compile:  # lengths in Python are for machines that do not compile
        # the code that is traced is ours and the code generator is torch's, which `make test-all` runs once
        backend = "eager" if architecture == "llama" else "inductor"
        monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
        monkeypatch.setattr(module, "attend_within", dense_within)
    policy = make_policy(architecture)
    attach_adapter(policy, LoraShape(), 0)
    expected, theirs = gradients(policy, lambda part: padded_loss(policy, part))
    loss, ours = gradients(policy, make_loss(policy, encode_pairs(policy, PAIRS), execution))
    assert loss == pytest.approx(expected, rel=1e-5)
    assert ours.keys() == theirs.keys()
    assert len(ours) == 2 * 7 * policy.base.config.num_hidden_layers
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient, rtol=1e-3, atol=1e-5 * float(gradient.abs().max()) + 1e-6)


def test_pairs_are_tokenised_together_as_one_by_one(make_policy: MakePolicy) -> None:
    """All pairs at once have the tokens of each prompt and each answer, the end included; no pairs have none."""
    policy = make_policy("llama")
    expected = [
        ([*policy.encode_prompt(prompt), *policy.encode_answer(answer)], len(policy.encode_prompt(prompt)))
        for prompt, answer in PAIRS
    ]
    assert encode_pairs(policy, PAIRS) == expected
    assert encode_pairs(policy, []) == []


def test_documents_do_not_leak(make_policy: MakePolicy) -> None:
    """What one pair says changes nothing in the loss of the pairs behind it in the row."""
    policy = make_policy("llama")
    attach_adapter(policy, LoraShape(), 0)
    policy.model.eval()
    encoded = encode_pairs(policy, PAIRS)
    tokens, prompt = encoded[0]
    other = ([(token + 5) % 200 for token in tokens], prompt)
    compute = make_loss(policy, encoded)
    alone = [float(compute([pair])) for pair in (*encoded[1:], other)]
    assert float(compute([other, *encoded[1:]])) == pytest.approx(sum(alone), rel=1e-5)
    assert float(compute([other])) != pytest.approx(float(compute([encoded[0]])), rel=1e-3)


def test_dropout_is_undone_in_the_mean(make_policy: MakePolicy) -> None:
    """With dropout, the gradients of many draws average to what each draw's expectation is, and none is another's."""
    policy = make_policy("llama")
    attach_adapter(policy, LoraShape(dropout=0.5), 0)
    layer = policy.base.model.layers[0].self_attn
    states = torch.randn(1, 4000, 64)
    torch.nn.init.normal_(layer.q_proj.lora_B["default"].weight)
    policy.model.eval()
    plain = layer.q_proj(states) - layer.q_proj.base_layer(states)
    assert torch.equal(project_together((layer.q_proj,), states)[0], project_together((layer.q_proj,), states)[0])
    policy.model.train()
    torch.manual_seed(0)
    drawn = [project_together((layer.q_proj,), states)[0] - layer.q_proj.base_layer(states) for _ in range(2)]
    assert not torch.allclose(drawn[0], drawn[1])
    # the projection on what it would be without dropout is 1 in expectation
    for one in drawn:
        assert float((one * plain).sum() / (plain * plain).sum()) == pytest.approx(1.0, abs=0.05)


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of answers in chunks has the value and gradient of cross-entropy over all logits."""
    torch.manual_seed(0)
    hidden, head = torch.randn(37, 16, requires_grad=True), torch.randn(50, 16)
    targets = torch.randint(50, (37,))
    torch.autograd.backward(torch.nn.functional.cross_entropy(hidden @ head.t(), targets, reduction="sum"))
    expected, hidden.grad = hidden.grad, None
    monkeypatch.setattr(chunked_loss, "CHUNK_LOGITS", 400)
    loss = chunked_loss.answer_loss(hidden, targets, head)
    torch.autograd.backward(loss / 2)
    torch.testing.assert_close(2 * hidden.grad, expected)
    assert float(loss) == pytest.approx(
        float(torch.nn.functional.cross_entropy(hidden @ head.t(), targets, reduction="sum")), rel=1e-6
    )


def test_microbatches_do_not_matter(make_policy: MakePolicy) -> None:
    """Cutting a batch into microbatches leaves the step as it is, but for rounding."""
    results = []
    for limit in (4096, 40):
        policy = make_policy("llama")
        attach_adapter(policy, LoraShape(dropout=0.0), 1)
        options = Execution(microbatch_tokens=limit)
        results.append(finetune(policy, PAIRS, epochs=2, learning_rate=1e-3, batch_size=4, seed=0, execution=options))
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


def peft_adapter(policy: Policy, folder: Path, **options: Any) -> torch.Tensor:
    """Save an adapter of peft's own making for the policy's model; its logits of `TOKENS`."""
    shape = {"r": 4, "lora_alpha": 8, "lora_dropout": 0.1, "target_modules": "all-linear", **options}
    model = get_peft_model(policy.model, LoraConfig(**shape)).eval()
    torch.manual_seed(2)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1)
    model.save_pretrained(folder)
    logits: torch.Tensor = model(TOKENS).logits
    return logits.detach()


TOKENS = torch.tensor([[5, 6, 7, 8, 9]])


def test_peft_reads_our_adapters(make_policy: MakePolicy, tmp_path: Path) -> None:
    """An adapter that was trained here gives the same logits in peft's own model."""
    policy = make_policy("qwen2")
    attach_adapter(policy, LoraShape(rank=4, alpha=8), 0)
    finetune(policy, PAIRS, epochs=2, learning_rate=1e-2, batch_size=4, seed=0)
    save_adapter(policy, tmp_path / "adapter")
    theirs = PeftModel.from_pretrained(make_policy("qwen2").model, tmp_path / "adapter").eval()
    assert torch.equal(theirs(TOKENS).logits, policy.model(TOKENS).logits)
    assert not torch.allclose(theirs(TOKENS).logits, make_policy("qwen2").model(TOKENS).logits)


def test_adapters_of_peft_load_here(make_policy: MakePolicy, tmp_path: Path) -> None:
    """Those of all layers and those of some give peft's logits, whichever adapter was there before."""
    expected = {
        name: peft_adapter(make_policy("llama"), tmp_path / name, **options)
        for name, options in (("all", {}), ("some", {"target_modules": ["q_proj"], "layers_to_transform": [1]}))
    }
    policy = make_policy("llama")
    for name in ("some", "all", "some"):
        load_adapter(policy, tmp_path / name)
        policy.model.eval()
        assert torch.equal(policy.model(TOKENS).logits, expected[name])


def test_adapters_that_are_not_computed_here_are_refused(make_policy: MakePolicy, tmp_path: Path) -> None:
    """What would be computed otherwise than by peft, another model's adapter and a spoilt one are errors of usage."""
    wide = {"alpha_pattern": {"q_proj": 32}, "use_rslora": True, "use_dora": True, "bias": "lora_only"}
    for key, value in wide.items():
        peft_adapter(make_policy("qwen2"), tmp_path / key, **{key: value})
        with pytest.raises(UsageError, match=f"cannot be loaded: {key} = "):
            load_adapter(make_policy("qwen2"), tmp_path / key)
    other = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1))
    peft_adapter(evolve(make_policy("llama"), model=other), tmp_path / "other")
    with pytest.raises(UsageError, match="an adapter of another model"):
        load_adapter(make_policy("llama"), tmp_path / "other")
    (tmp_path / "other/adapter_model.safetensors").write_bytes(b"cut off")
    with pytest.raises(UsageError, match="cannot be loaded: SafetensorError"):
        load_adapter(make_policy("llama"), tmp_path / "other")


def test_a_training_that_diverges_says_so(make_policy: MakePolicy) -> None:
    """A step without a finite loss ends the training, in words that have the step; the policy can be trained anew."""
    policy = make_policy("llama")
    attach_adapter(policy, LoraShape(dropout=0.0), 0)
    options: dict[str, Any] = {"epochs": 3, "batch_size": 4, "seed": 0, "warmup_share": 0.0}
    with pytest.raises(DivergedError, match=r"loss nan, gradient nan in step 2 of 3 at a learning rate of 6\.7e"):
        finetune(policy, PAIRS, learning_rate=1e38, **options)
    reset_adapter(policy, 0)
    assert len(finetune(policy, PAIRS, learning_rate=1e-3, **options)) == 3


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
    steps: list[TrainingStep] = []
    losses = learner.finetune(None, PAIRS, training, tmp_path / "one", steps.append)
    assert [step.loss for step in steps] == losses
    assert steps[-1].num_done == training.num_steps(len(PAIRS))
    tuned = learner.sample(tmp_path / "one", ["a", "b"], [1, 2], sampling, done.append)
    learner.finetune(tmp_path / "one", PAIRS, training, tmp_path / "two", lambda _: None)
    assert learner.sample(None, ["a", "b"], [1, 2], sampling, done.append) == base
    assert learner.sample(tmp_path / "one", ["a", "b"], [1, 2], sampling, done.append) == tuned
    assert learner.finetune(None, PAIRS, training, tmp_path / "again", lambda _: None) == losses
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
