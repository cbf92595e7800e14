"""The policy-gradient step against a plain one, and what it does to the answers that it learns from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from attrs import evolve
from safetensors.torch import load_file
from tritonrl.core.recipe.learner import Answer, PolicyUpdate, Sampling, Training
from tritonrl.harness.policy.learner import MOMENTS, PolicyLearner
from tritonrl.harness.policy.model.load import LoraShape, Policy
from tritonrl.harness.policy.model.lora_adapters import attach_adapter
from tritonrl.harness.policy.model.states import enter_state
from tritonrl.harness.policy.training import policy_gradient as module
from tritonrl.harness.policy.training.descent import Gradients, make_optimizer
from tritonrl.harness.policy.training.distributed import ALONE
from tritonrl.harness.policy.training.finetune import Execution, trained_weights
from tritonrl.harness.policy.training.policy_gradient import NUM_SUMS, PolicyGradient, Scores, plan_round

MakePolicy = Callable[[str], Policy]
UPDATE = PolicyUpdate(
    algorithm="rloo",
    minibatches=1,
    learning_rate=1e-3,
    warmup_steps=0,
    clip_low=0.2,
    clip_high=0.28,
    kl_coefficient=0.0,
    temperature=0.8,
    most_tokens=40,
    lora_rank=4,
    lora_alpha=8,
    lora_dropout=0.1,
    seed=3,
)


def make_answers(policy: Policy) -> list[Answer]:
    """Answers of several lengths to two prompts, good and bad ones."""
    texts = [("a", "x = 1", 1.0), ("a", "y + y + y + y", -0.5), ("a", "def f", -0.5), ("b b b", "z", 0.7)]
    return [
        Answer(prompt=prompt, tokens=tuple(policy.encode_answer(text)), advantage=advantage)
        for prompt, text, advantage in texts
    ]


def log_probability(policy: Policy, answer: Answer, temperature: float = 0.8) -> torch.Tensor:
    """Log-probabilities of an answer's tokens by the model's own forward pass, one row, no padding."""
    prompt = policy.encode_prompt(answer.prompt)
    tokens = torch.tensor([[*prompt, *answer.tokens]])
    logits = policy.model(input_ids=tokens, use_cache=False).logits[0, len(prompt) - 1 : -1].float() / temperature
    return torch.log_softmax(logits, dim=-1).gather(-1, tokens[0, len(prompt) :, None])[:, 0]


def plain_loss(
    policy: Policy, answers: Sequence[Answer], before: Sequence[torch.Tensor], start: Sequence[torch.Tensor], kl: float
) -> torch.Tensor:
    """The loss of `rloo` as one writes it down, answer by answer."""
    total = sum(len(answer.tokens) for answer in answers)
    loss = torch.zeros(())
    for answer, old, first in zip(answers, before, start, strict=True):
        now = log_probability(policy, answer)
        ratio = (now - old).exp()
        gain = torch.minimum(ratio * answer.advantage, ratio.clamp(0.8, 1.28) * answer.advantage)
        apart = first - now
        loss = loss + (kl * (apart.exp() - apart - 1.0) - gain).sum() / total
    return loss


def prepared(make_policy: MakePolicy, architecture: str) -> Policy:
    """A policy with an adapter that changes something."""
    policy = make_policy(architecture)
    attach_adapter(policy, LoraShape(rank=4, alpha=8, dropout=0.1), 0)
    generator = torch.Generator().manual_seed(1)
    for name, weight in policy.model.named_parameters():
        if "lora_B" in name:
            weight.data.copy_(torch.empty_like(weight).normal_(std=0.05, generator=generator))
    policy.model.eval()
    return policy


def disturbed(scores: Sequence[torch.Tensor], seed: int) -> list[torch.Tensor]:
    """Scores that are some way off, so that ratios are clipped on both sides."""
    generator = torch.Generator().manual_seed(seed)
    return [one + torch.empty_like(one).normal_(std=0.8, generator=generator) for one in scores]


@pytest.mark.parametrize("kl", [0.0, 0.3])
@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
@pytest.mark.parametrize(
    "execution",
    [
        pytest.param(Execution(microbatch_tokens=4096), id="packed"),
        pytest.param(Execution(microbatch_tokens=4096, capture=True), id="filled up"),
        pytest.param(Execution(microbatch_tokens=30), id="in microbatches"),
        pytest.param(None, id="own forward pass"),
    ],
)
def test_gradients_are_those_of_the_plain_loss(
    make_policy: MakePolicy,
    monkeypatch: pytest.MonkeyPatch,
    architecture: str,
    execution: Execution | None,
    kl: float,
) -> None:
    """Packed, filled up, cut or by the model's own forward pass: loss, clipping and gradients are the plain ones.

    Answers that came several times, which go through the model once, weigh as many times.
    """
    policy = prepared(make_policy, architecture)
    answers = make_answers(policy)
    if execution is None:
        monkeypatch.setattr(module, "is_supported", lambda _: False)
        execution = Execution(microbatch_tokens=4096)
    with torch.no_grad():
        scores = [log_probability(policy, answer) for answer in answers]
    before, start = disturbed(scores, 1), disturbed(scores, 2)
    came = (0, 1, 2, 3, 0, 2, 0)
    drawn = [answers[number] for number in came]
    plain = plain_loss(policy, drawn, [before[number] for number in came], [start[number] for number in came], kl)
    expected = torch.autograd.grad(plain, trained_weights(policy))

    update = evolve(UPDATE, kl_coefficient=kl)
    learning = PolicyGradient(policy, plan_round(policy, drawn, update), update, ALONE, execution)
    found_scores = learning.score()
    assert len(found_scores.by_answer) == len(answers)
    for number, one in enumerate(scores):
        torch.testing.assert_close(found_scores.by_answer[number], one, rtol=1e-4, atol=1e-4)
    gradients = Gradients(trained_weights(policy), NUM_SUMS)
    kept: list[torch.Tensor] = []
    optimizer = make_optimizer(gradients)
    monkeypatch.setattr(optimizer, "step", lambda: kept.extend(one.grad.clone() for one in gradients.masters))
    monkeypatch.setattr(module, "MAX_GRADIENT_NORM", 1e9)
    given = [Scores(by_answer=dict(enumerate(one)), entropy=0.0) for one in (before, start)]
    (point,) = learning.take_steps(*given, gradients, optimizer, 0, lambda _: None)
    assert point.loss == pytest.approx(float(plain), rel=1e-4, abs=1e-6)
    ratios = torch.cat([(scores[number] - before[number]).exp() for number in came])
    signs = torch.cat([torch.full((len(answer.tokens),), answer.advantage) for answer in drawn])
    is_clipped = ((signs > 0) & (ratios > 1.28)) | ((signs < 0) & (ratios < 0.8))
    assert point.sums[0] == pytest.approx(float(is_clipped.float().mean()), abs=1e-6)
    assert 0.0 < point.sums[0] < 1.0
    for one, other in zip(kept, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5 * float(other.abs().max()) + 1e-7)


def test_good_answers_become_likelier_and_bad_ones_less(make_policy: MakePolicy, tmp_path: Path) -> None:
    """A round moves each answer's probability in the direction of its advantage."""
    policy = make_policy("llama")
    answers = make_answers(policy)
    with torch.no_grad():
        before = [float(log_probability(policy, answer).sum()) for answer in answers]
    learner = PolicyLearner(policy)
    learner.reinforce(None, answers, UPDATE, None, tmp_path / "adapter", lambda _: None)
    enter_state(policy, tmp_path / "adapter")
    policy.model.eval()
    with torch.no_grad():
        after = [float(log_probability(policy, answer).sum()) for answer in answers]
    for answer, old, new in zip(answers, before, after, strict=True):
        assert (new - old) * answer.advantage > 0.0


def test_rounds_keep_the_moments(make_policy: MakePolicy, tmp_path: Path) -> None:
    """A second round warms up where the first one ended, in a new process as in the old one, to the same adapter."""
    update = evolve(UPDATE, minibatches=2, warmup_steps=3)
    learner = PolicyLearner(make_policy("llama"))
    answers = make_answers(learner.policy)
    rates: list[float] = []
    told = lambda step: rates.append(step.learning_rate)  # noqa: E731
    learner.reinforce(None, answers, update, None, tmp_path / "1/adapter", told)
    found = learner.reinforce(tmp_path / "1/adapter", answers, update, None, tmp_path / "2/adapter", told)
    assert rates == pytest.approx([share * update.learning_rate for share in (0.25, 0.5, 0.75, 1.0)])
    fresh = PolicyLearner(make_policy("llama"))
    again = fresh.reinforce(tmp_path / "1/adapter", answers, update, None, tmp_path / "3/adapter", lambda _: None)
    assert again == found
    for name in ("adapter/adapter_model.safetensors", MOMENTS):
        assert (tmp_path / "2" / name).read_bytes() == (tmp_path / "3" / name).read_bytes()
    (tmp_path / "1" / MOMENTS).unlink()
    fresh.reinforce(tmp_path / "1/adapter", answers, update, None, tmp_path / "4/adapter", lambda _: None)
    one, other = (load_file(tmp_path / name / "adapter/adapter_model.safetensors") for name in ("2", "4"))
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_figures_of_a_round(make_policy: MakePolicy, tmp_path: Path) -> None:
    """The first round is where it started and clips nothing; later ones have diverged; entropy is that of the draws."""
    update = evolve(UPDATE, learning_rate=5e-3)
    policy = make_policy("llama")
    learner, answers = PolicyLearner(policy), make_answers(policy)
    answers.append(answers[1])
    first = learner.reinforce(None, answers, update, None, tmp_path / "1/adapter", lambda _: None)
    second = learner.reinforce(tmp_path / "1/adapter", answers, update, None, tmp_path / "2/adapter", lambda _: None)
    assert first.kl == pytest.approx(0.0, abs=1e-6)
    assert second.kl > 1e-5
    assert first.clip_shares == (0.0,)
    assert first.gradient_norms[0] > 0.0
    entropies = []
    enter_state(policy, None)
    for answer in answers:
        prompt = policy.encode_prompt(answer.prompt)
        with torch.no_grad():
            logits = policy.model(torch.tensor([[*prompt, *answer.tokens]])).logits[0, len(prompt) - 1 : -1] / 0.8
        entropies.append(torch.distributions.Categorical(logits=logits).entropy())
    assert first.entropy == pytest.approx(float(torch.cat(entropies).mean()), rel=1e-4)


def test_a_round_goes_on_from_all_weights(make_policy: MakePolicy, tmp_path: Path) -> None:
    """Over a start of all weights the adapter is new, its folder has the weights, and divergence is from the start."""
    learner = PolicyLearner(make_policy("llama"))
    start = tmp_path / "start"
    full = Training(
        epochs=2,
        learning_rate=1e-3,
        batch_size=2,
        warmup_share=0.0,
        lora_rank=4,
        lora_alpha=8,
        lora_dropout=0.0,
        seed=0,
        method="full",
    )
    learner.finetune(None, [("a", "x = 1"), ("b", "y")], full, start, lambda _: None)
    answers = make_answers(learner.policy)
    update = evolve(UPDATE, learning_rate=5e-3)
    first = learner.reinforce(start, answers, update, start, tmp_path / "1/adapter", lambda _: None)
    second = learner.reinforce(tmp_path / "1/adapter", answers, update, start, tmp_path / "2/adapter", lambda _: None)
    assert first.kl == 0.0
    assert 1e-6 < second.kl < 5.0
    assert (tmp_path / "2/adapter/base/model.safetensors").samefile(start / "model.safetensors")


def test_draws_are_the_samples_with_their_tokens(make_varied_policy: MakePolicy) -> None:
    """They are those of `sample`; tokens end with the end token where the answer is finished, and are its text."""
    learner = PolicyLearner(make_varied_policy("llama"))
    sampling = Sampling(temperature=1.0, top_p=1.0, max_new_tokens=30)
    prompts, seeds = ["a", "b"] * 8, range(16)
    drawn = learner.sample(None, prompts, seeds, sampling, lambda _: None)
    assert drawn == learner.sample(None, prompts, seeds, sampling, lambda _: None)
    for one in drawn:
        is_ended = one.tokens[-1] in learner.policy.end_tokens
        assert one.finished == is_ended
        assert is_ended or one.num_tokens == 30
        kept = one.tokens[:-1] if is_ended else one.tokens
        assert learner.policy.tokenizer.decode(kept, skip_special_tokens=True) == one.text
