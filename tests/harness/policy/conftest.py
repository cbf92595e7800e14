"""Tiny policies with random weights, built in the test: no download, no shipped weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM
from tritonrl.harness.bench.policy.pretrain.tokenizer import train_tokenizer, with_chat_template
from tritonrl.harness.policy.model.load import Policy

# a file of its own: a tokenizer trained on the sources would change with every docstring, and these policies with it
TEXT = Path(__file__).parent / "tokenizer.txt"
ARCHITECTURES = ("llama", "qwen2")


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer() -> object:
    return with_chat_template(train_tokenizer([TEXT.read_text()], 600), 512)


@pytest.fixture(scope="session")
def make_policy(tokenizer: object) -> Callable[[str], Policy]:
    def make(architecture: str) -> Policy:
        sizes = {
            "vocab_size": len(tokenizer),  # type: ignore[arg-type]
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "tie_word_embeddings": True,
            "eos_token_id": tokenizer.eos_token_id,  # type: ignore[attr-defined]
            "pad_token_id": tokenizer.pad_token_id,  # type: ignore[attr-defined]
            "bos_token_id": None,
        }
        torch.manual_seed(0)
        model = LlamaForCausalLM(LlamaConfig(**sizes)) if architecture == "llama" else None
        model = model or Qwen2ForCausalLM(Qwen2Config(**sizes))
        with torch.no_grad():
            for name, weight in model.named_parameters():
                # larger than usual, so that greedy continuations vary; Qwen2's biases start at zero otherwise
                weight.normal_(std=0.5) if name.endswith("bias") else weight.mul_(4 if weight.ndim > 1 else 1)
        return Policy(model=model.eval(), tokenizer=tokenizer, name=architecture, fingerprint=architecture)

    return make


@pytest.fixture
def make_varied_policy(make_policy: Callable[[str], Policy]) -> Callable[[str], Policy]:
    """Policies whose layers outweigh the tied embedding: else greedy continuations soon repeat one token."""

    def make(architecture: str) -> Policy:
        policy = make_policy(architecture)
        with torch.no_grad():
            for name, weight in policy.model.named_parameters():
                if weight.ndim > 1:
                    weight.mul_(0.25 if "embed" in name else 2.0)
        return policy

    return make
