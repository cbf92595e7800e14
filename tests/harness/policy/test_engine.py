"""The batched sampler: what `generate` says when greedy, and a stream of its own for each completion."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformers import LlamaForCausalLM
from tritonrl.core.recipe.learner import Completion
from tritonrl.harness.policy.model.load import LoraShape, Policy
from tritonrl.harness.policy.model.lora_adapters import attach_adapter
from tritonrl.harness.policy.sampling import cpu_decoder
from tritonrl.harness.policy.sampling import engine as sampling
from tritonrl.harness.policy.sampling.cpu_decoder import FusedDecoder, ModelDecoder, make_decoder
from tritonrl.harness.policy.sampling.engine import sample, sample_tokens
from tritonrl.harness.policy.sampling.kv_pool import draw, uniforms

MakePolicy = Callable[[str], Policy]
PROMPTS = ["one", "def forward(self, x):\n    return x * 12", "a rather longer request " * 6, "1 2 3"]
REPEATED = [prompt for prompt in PROMPTS for _ in range(3)]


def generated(policy: Policy, prompt: str, num_tokens: int) -> str:
    tokens = torch.tensor([policy.encode_prompt(prompt)])
    with torch.no_grad():
        result = policy.model.generate(input_ids=tokens, do_sample=False, max_new_tokens=num_tokens)
    text: str = policy.tokenizer.decode(result[0, tokens.shape[1] :], skip_special_tokens=True)
    return text


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
@pytest.mark.parametrize("adapted", [False, True])
def test_greedy_is_generate(make_varied_policy: MakePolicy, architecture: str, adapted: bool) -> None:
    """At temperature 0 the sampler writes what `generate` writes, with a trained adapter too."""
    policy = make_varied_policy(architecture)
    if adapted:
        attach_adapter(policy, LoraShape(rank=4), 0)
        with torch.no_grad():
            for name, weight in policy.model.named_parameters():
                if "lora_B" in name:
                    weight.normal_(std=0.2)
    assert isinstance(make_decoder(policy, 1), FusedDecoder)
    texts = [completion.text for completion in sample(policy, REPEATED, range(12), temperature=0.0, max_new_tokens=40)]
    expected = [generated(policy, prompt, 40) for prompt in PROMPTS]
    assert texts == [text for text in expected for _ in range(3)]
    assert len(set(texts)) > 1


def test_other_models_agree(make_varied_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding through the model's own forward pass draws the same completions as the fused one."""
    policy = make_varied_policy("qwen2")
    fused = sample(policy, REPEATED, range(12), temperature=1.0, max_new_tokens=30)
    monkeypatch.setattr(sampling, "make_decoder", lambda policy, _: ModelDecoder(policy))
    assert sample(policy, REPEATED, range(12), temperature=1.0, max_new_tokens=30) == fused


ROTARY = {
    "linear": {"factor": 2.0},
    "llama3": {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 32},
    "dynamic": {"factor": 4.0},
    "longrope": {
        "factor": 4.0,
        "original_max_position_embeddings": 32,
        "short_factor": [1.0 + 0.1 * number for number in range(8)],
        "long_factor": [2.0 + 0.5 * number for number in range(8)],
    },
}


@pytest.mark.parametrize("kind", ROTARY)
def test_every_rotary_embedding_is_generates(make_varied_policy: MakePolicy, kind: str) -> None:
    """Scaled positions are read as `generate` reads them in one prompt alone, whatever is read beside it or before.

    Two kinds turn by the length of the longest row: they go through the model, one length of prompt at a time.
    """
    policy = make_varied_policy("llama")
    config = policy.model.config
    config.rope_parameters = {"rope_type": kind, "rope_theta": 10000.0, **ROTARY[kind]}
    config.max_position_embeddings, config.mlp_bias = 64, True
    model = LlamaForCausalLM(config).eval()
    model.load_state_dict(policy.model.state_dict(), strict=False)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias"):
                weight.normal_(std=0.5)
    model.generation_config.eos_token_id = None
    policy.model = model
    follows_length = kind in ("dynamic", "longrope")
    assert isinstance(make_decoder(policy, 1), ModelDecoder if follows_length else FusedDecoder)
    prompts = [[number % 500 + 5 for number in range(3, 3 + count)] for count in (90, 4, 70, 4, 40)]
    found = [sample_tokens(policy, prompts[1:], range(4), temperature=0.0, max_new_tokens=12) for _ in range(2)]
    long, *_ = sample_tokens(policy, prompts, range(5), temperature=0.0, max_new_tokens=12)
    expected = []
    for prompt in prompts:
        tokens = torch.tensor([prompt])
        fresh = LlamaForCausalLM(config).eval()
        fresh.load_state_dict(model.state_dict())
        fresh.generation_config.eos_token_id = None
        written = fresh.generate(tokens, attention_mask=torch.ones_like(tokens), do_sample=False, max_new_tokens=12)
        expected.append(written[0, len(prompt) :].tolist())
    assert [[long, *rest] for rest in found] == [expected] * 2


def test_prompts_read_in_parts_are_the_same(make_varied_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many prompts are read at once decides nothing."""
    policy = make_varied_policy("qwen2")
    whole = sample(policy, REPEATED, range(12), temperature=1.0, max_new_tokens=20)
    monkeypatch.setattr(cpu_decoder, "CPU_PREFILL_TOKENS", 64)
    assert sample(policy, REPEATED, range(12), temperature=1.0, max_new_tokens=20) == whole


def test_an_empty_prompt_is_an_error(make_varied_policy: MakePolicy) -> None:
    """Nothing follows nothing."""
    with pytest.raises(ValueError, match="without tokens"):
        sample_tokens(make_varied_policy("llama"), [[5], []], [0, 1], temperature=0.0)


def test_an_end_that_is_no_special_token_is_not_written(make_varied_policy: MakePolicy) -> None:
    """The end is left out of the text also where the tokenizer takes it for an ordinary token."""
    policy = make_varied_policy("llama")
    (whole,) = sample(policy, ["one"], [0], temperature=0.0, max_new_tokens=6)
    tokens = sample_tokens(policy, [policy.encode_prompt("one")], [0], temperature=0.0, max_new_tokens=6)[0]
    policy.model.generation_config.eos_token_id = tokens[0]
    (cut,) = sample(policy, ["one"], [0], temperature=0.0, max_new_tokens=6)
    assert whole.text
    assert (cut.text, cut.num_tokens, cut.finished) == ("", 1, True)


def test_rows_are_independent(make_varied_policy: MakePolicy) -> None:
    """A completion depends on its prompt and seed, and not on the batch around it."""
    policy = make_varied_policy("llama")
    together = sample(policy, REPEATED, range(12), temperature=1.0, max_new_tokens=30)
    backwards = sample(policy, REPEATED[::-1], range(11, -1, -1), temperature=1.0, max_new_tokens=30)[::-1]
    alone = [
        sample(policy, [prompt], [seed], temperature=1.0, max_new_tokens=30)[0] for seed, prompt in enumerate(REPEATED)
    ]
    assert together == backwards == alone
    assert len({completion.text for completion in together}) == 12


def test_ends_at_the_end_token(make_varied_policy: MakePolicy) -> None:
    """A completion ends at the end token, which is counted and not written; the others go on to the limit."""
    policy = make_varied_policy("llama")
    before = sample(policy, REPEATED, range(12), temperature=1.0, max_new_tokens=40)
    ended = [row for row, completion in enumerate(before) if completion.finished]
    assert all(completion.num_tokens == 40 for completion in before if not completion.finished)
    # make a token that some completions draw early an end token: they must stop there, and the rest must not change
    first = policy.tokenizer.encode(before[0].text, add_special_tokens=False)[0]
    policy.model.generation_config.eos_token_id = [policy.tokenizer.eos_token_id, first]
    after = sample(policy, REPEATED, range(12), temperature=1.0, max_new_tokens=40)
    assert sum(completion.finished for completion in after) > len(ended)
    for old, new in zip(before, after, strict=True):
        assert old.text.startswith(new.text)
        assert new.finished or new == old


def test_progress_counts_completions(make_varied_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress rises to the number of prompts, over several batches; each completion is told with its place."""
    policy, seen, drawn = make_varied_policy("llama"), list[int](), dict[int, Completion]()
    whole = sample(policy, REPEATED, range(12), temperature=1.0, max_new_tokens=10)
    monkeypatch.setattr(sampling, "MAX_SLOTS", 5)
    parts = sample(
        policy,
        REPEATED,
        range(12),
        temperature=1.0,
        max_new_tokens=10,
        on_progress=seen.append,
        on_drawn=drawn.__setitem__,
    )
    assert parts == whole == [drawn[number] for number in range(12)]
    assert seen == list(range(1, 13))


def test_no_prompts(make_varied_policy: MakePolicy) -> None:
    """No prompts give no completions."""
    assert sample(make_varied_policy("llama"), [], [], temperature=1.0) == []


def test_draw_follows_the_distribution() -> None:
    """Uniforms spread evenly over [0, 1) give each token in proportion to its probability at the temperature."""
    logits = torch.tensor([1.0, 3.0, -2.0, 0.0])
    count = 20_000
    even = (torch.arange(count) + 0.5) / count
    for temperature in (0.5, 1.0, 2.0):
        drawn = draw(logits.expand(count, -1), even, temperature, 1.0)
        shares = torch.bincount(drawn, minlength=4) / count
        torch.testing.assert_close(shares, (logits / temperature).softmax(-1), atol=2e-4, rtol=0)


def test_nucleus_keeps_the_likeliest() -> None:
    """`top_p` draws only from the smallest set of likeliest tokens that holds the share."""
    logits = torch.tensor([0.1, 0.5, 0.3, 0.1]).log().expand(1000, -1)
    even = (torch.arange(1000) + 0.5) / 1000
    assert set(draw(logits, even, 1.0, 0.5).tolist()) == {1}
    assert set(draw(logits, even, 1.0, 0.7).tolist()) == {1, 2}


def test_extreme_uniforms_draw_possible_tokens() -> None:
    """Uniforms at the ends of [0, 1) never draw a token of probability zero."""
    logits = torch.tensor([[-torch.inf, 0.0, 0.0, -torch.inf]])
    for uniform in (0.0, 1.0 - 2**-53):
        assert draw(logits, torch.tensor([uniform], dtype=torch.float64), 1.0, 1.0).item() in (1, 2)


def test_uniforms_are_prefixes() -> None:
    """A seed's stream is the same whatever its length, and differs from another seed's."""
    assert uniforms(7, 5).tolist() == uniforms(7, 9)[:5].tolist()
    assert uniforms(7, 5).tolist() != uniforms(8, 5).tolist()
