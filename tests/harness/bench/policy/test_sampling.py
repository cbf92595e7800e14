"""The sampler's benchmark: figures that fit together, and a greedy check that can fail."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig
from tritonrl.core.serialisation import to_plain
from tritonrl.harness.bench.policy import sampling
from tritonrl.harness.bench.policy.sampling import GreedyFigures, SamplingFigures, make_random, measure_sampling
from tritonrl.harness.errors import UsageError

SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


@pytest.fixture
def shape(tmp_path: Path) -> str:
    """A tiny model's config.json."""
    config = LlamaConfig(**SIZES, num_key_value_heads=2, vocab_size=100, tie_word_embeddings=True)
    config.architectures = ["LlamaForCausalLM"]
    config.save_pretrained(tmp_path)
    return str(tmp_path / "config.json")


def measure(shape: str) -> SamplingFigures:
    return measure_sampling(
        None, shape, batch=3, prompt_tokens=5, new_tokens=6, repeats=2, seed=0, threads=1, with_generate=True
    )


def test_figures_fit_together(shape: str) -> None:
    """Rates follow from times and sizes, the bound from bytes, and all of it can be written as JSON and as lines."""
    figures = measure(shape)
    assert len(figures.seconds) == 2
    assert figures.generate_s is not None
    assert figures.generate_tokens_per_s == pytest.approx(18 / figures.generate_s)
    assert figures.speedup == pytest.approx(figures.tokens_per_s / figures.generate_tokens_per_s)
    element = 4 if figures.dtype == "float32" else 2
    per_token = 2 * 2 * 2 * 8 * element
    assert figures.step_gb * 1e9 == pytest.approx(figures.num_parameters * element + 3 * 8.5 * per_token)
    assert figures.greedy.is_equal
    assert to_plain(figures)["batch"] == 3


def test_the_greedy_check_can_fail(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler that does not write the likeliest tokens is found out."""
    monkeypatch.setattr(
        sampling, "sample_tokens", lambda _, prompts, *args, **named: [list(range(64)) for _ in prompts]
    )
    greedy = sampling._check_greedy(make_random(shape, 0), torch.randint(100, (3, 5)))
    assert isinstance(greedy, GreedyFigures)
    assert greedy.share_likeliest < 0.9
    assert not greedy.is_equal


def test_unknown_shapes_are_refused() -> None:
    """A shape that is neither known nor a file is an error of usage."""
    with pytest.raises(UsageError, match="smollm2-135m"):
        make_random("smollm3", 0)
