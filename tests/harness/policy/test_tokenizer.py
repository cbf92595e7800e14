"""The tokenizer and the chat template, and loading a saved policy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.config import PolicyConfig
from tritonrl.harness.bench.policy.pretrain.tokenizer import (
    SPECIAL_TOKENS,
    render_prompt,
    train_tokenizer,
    with_chat_template,
)
from tritonrl.harness.errors import UsageError
from tritonrl.harness.policy.model.load import Policy, load_policy
from tritonrl.harness.policy.sampling.engine import sample

TOKENIZER: Any = with_chat_template(
    train_tokenizer(["def f(x_ptr, n: tl.constexpr):\n    return x_ptr + 128\n" * 9, "x = 1\n        y"], 320), 512
)
plain_text = st.text().filter(lambda text: not any(token in text for token in SPECIAL_TOKENS))


@given(plain_text)
def test_any_text_survives(text: str) -> None:
    """Encoding and decoding give the text back, whatever it is."""
    assert TOKENIZER.decode(TOKENIZER.encode(text, add_special_tokens=False)) == text


@given(plain_text)
def test_template_is_the_rendered_prompt(text: str) -> None:
    """The Jinja template writes what pretraining was given."""
    messages = [{"role": "user", "content": text}]
    assert TOKENIZER.apply_chat_template(messages, add_generation_prompt=True, tokenize=False) == render_prompt(text)


@given(st.integers(0, 10**12))
def test_digits_stand_alone(number: int) -> None:
    """Every digit is a token of its own, so that numbers are copied digit by digit."""
    assert len(TOKENIZER.encode(str(number), add_special_tokens=False)) == len(str(number))


def test_indentation_is_one_token() -> None:
    """A line break with the indentation seen in training is one token."""
    assert len(TOKENIZER.encode("\n    ", add_special_tokens=False)) == 1


def test_saved_policy_loads_again(make_policy: Callable[[str], Policy], tmp_path: Path) -> None:
    """A folder loads as the policy that was saved; its fingerprint follows the weights and not the place."""
    policy = make_policy("llama")
    for part in (policy.model, policy.tokenizer):
        part.save_pretrained(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    first, second = (load_policy(PolicyConfig(name=str(tmp_path / name)), device="cpu") for name in ("one", "two"))
    assert first.fingerprint == second.fingerprint
    texts = [
        sample(each, ["hello"], [1], temperature=1.0, max_new_tokens=8)[0].text for each in (policy, first, second)
    ]
    assert texts == texts[:1] * 3
    weight = policy.model.model.layers[0].mlp.up_proj.weight
    weight.data[0, 0] += 1.0
    policy.model.save_pretrained(tmp_path / "two")
    assert load_policy(PolicyConfig(name=str(tmp_path / "two")), device="cpu").fingerprint != first.fingerprint
    reduced = load_policy(PolicyConfig(name=str(tmp_path / "one"), dtype="bfloat16"), device="cpu")
    assert reduced.fingerprint != first.fingerprint


def test_missing_policy_is_a_usage_error(tmp_path: Path) -> None:
    """A folder without a model is the user's mistake, named in one error."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="cannot be loaded"):
        load_policy(PolicyConfig(name=str(tmp_path / "empty")), device="cpu")
