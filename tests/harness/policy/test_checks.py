"""Folders that cannot serve as a policy, and adapters that are not one of ours: one line, and never other numbers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tritonrl.core.config import PolicyConfig
from tritonrl.harness.errors import UsageError
from tritonrl.harness.policy.model.load import LoraShape, Policy, load_policy
from tritonrl.harness.policy.model.lora_adapters import attach_adapter, load_adapter, save_adapter

MakePolicy = Callable[[str], Policy]
Change = Callable[[Path], object]


@pytest.fixture
def folder(make_policy: MakePolicy, tmp_path: Path) -> Path:
    """A folder that is a policy."""
    policy, target = make_policy("llama"), tmp_path / "good"
    policy.model.save_pretrained(target)
    policy.tokenizer.save_pretrained(target)
    return target


def edit(name: str, **changes: object) -> Change:
    """Change keys of one of a folder's JSON files; None takes a key away."""

    def change(folder: Path) -> None:
        plain = {**json.loads((folder / name).read_text()), **changes}
        (folder / name).write_text(json.dumps({key: value for key, value in plain.items() if value is not None}))

    return change


def without(part: str, name: str = "model.safetensors") -> Change:
    """Leave out the tensors whose names hold `part`."""

    def change(folder: Path) -> None:
        tensors = load_file(folder / name)
        kept = {key: value for key, value in tensors.items() if part not in key}
        save_file(kept, folder / name, metadata={"format": "pt"})

    return change


def put(name: str, content: str) -> Change:
    return lambda folder: (folder / name).write_text(content)


def drop_end(folder: Path) -> None:
    edit("tokenizer_config.json", eos_token=None)(folder)
    edit("config.json", eos_token_id=None)(folder)
    edit("generation_config.json", eos_token_id=None)(folder)


BROKEN: dict[str, tuple[Change, str]] = {
    "weights that lack a layer": (without("layers.1.mlp.up"), r"its weights lack model\.layers\.1\.mlp\.up_proj"),
    "a layer more by its configuration": (edit("config.json", num_hidden_layers=3), "lack model.layers.2.* and 8 more"),
    "another width": (edit("config.json", intermediate_size=80), r"\(64, 96\) in its weights, and \(64, 80\) by"),
    "weights cut short": (put("model.safetensors", "version https://git-lfs"), "SafetensorError"),
    "a rotary embedding nobody knows": (
        edit("config.json", rope_parameters={"rope_type": "spiral", "rope_theta": 1.0}),
        "KeyError: 'spiral'",
    ),
    "a wrong type": (edit("config.json", hidden_size="wide"), "expected int, got str"),
    "a type nobody knows": (edit("config.json", model_type="nobody"), "model type `nobody`"),
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "backend tokenizer"),
    "a larger vocabulary": (
        lambda folder: [edit("config.json", vocab_size=500)(folder), shrink(folder)],
        "its tokenizer has 600 tokens, the model 500",
    ),
    "no template": (lambda folder: (folder / "chat_template.jinja").unlink(), "no chat template"),
    "a template that fails": (put("chat_template.jinja", "{% for %}"), "its chat template fails: TemplateSyntaxError"),
    "a template of nothing": (put("chat_template.jinja", "hello"), "leaves out what the user says"),
    "no end": (drop_end, "names the token that ends an answer"),
    "an adapter": (
        lambda folder: (folder / "config.json").rename(folder / "adapter_config.json"),
        "it is an adapter",
    ),
}


def shrink(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(
        {key: value[:500].clone() if "embed" in key else value for key, value in tensors.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )


@pytest.mark.parametrize("name", BROKEN)
def test_broken_folders_are_one_line(folder: Path, name: str) -> None:
    """Loading says what is wrong with a folder, in one line of bounded length."""
    change, expected = BROKEN[name]
    change(folder)
    with pytest.raises(UsageError, match=expected) as caught:
        load_policy(PolicyConfig(name=str(folder)), "cpu")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500 + len(str(folder))


def test_a_model_with_another_memory_is_refused(folder: Path) -> None:
    """Mamba would take the cache of keys and values, ignore it, and write nonsense; BERT reads both ways.

    GPT-NeoX does not, though its configuration is no decoder's either.
    """
    from transformers import (
        BertConfig,
        BertLMHeadModel,
        GPTNeoXConfig,
        GPTNeoXForCausalLM,
        MambaConfig,
        MambaForCausalLM,
    )

    sizes = {"vocab_size": 600, "hidden_size": 16, "num_hidden_layers": 1}
    mamba = MambaForCausalLM(MambaConfig(**sizes, state_size=4))
    bert = BertLMHeadModel(BertConfig(**sizes, num_attention_heads=2, intermediate_size=16))
    for model, expected in ((mamba, "keeps no keys and values"), (bert, "does not continue a text")):
        model.save_pretrained(folder)
        with pytest.raises(UsageError, match=expected):
            load_policy(PolicyConfig(name=str(folder)), "cpu")
    GPTNeoXForCausalLM(GPTNeoXConfig(**sizes, num_attention_heads=2, intermediate_size=16)).save_pretrained(folder)
    assert load_policy(PolicyConfig(name=str(folder)), "cpu").base.config.model_type == "gpt_neox"


def test_a_garbled_gguf_file_is_one_line(tmp_path: Path) -> None:
    """A file that only says it is GGUF is refused by name."""
    pytest.importorskip("gguf")
    (tmp_path / "x.gguf").write_bytes(b"garbage")
    with pytest.raises(UsageError, match=r"x\.gguf.*cannot be loaded"):
        load_policy(PolicyConfig(name=str(tmp_path / "x.gguf")), "cpu")


def test_an_end_is_taken_from_the_model(folder: Path) -> None:
    """A tokenizer without an end has the model's, and no token is None."""
    edit("tokenizer_config.json", eos_token=None)(folder)
    policy = load_policy(PolicyConfig(name=str(folder)), "cpu")
    assert policy.end_tokens == {policy.base.generation_config.eos_token_id}
    assert policy.encode_answer("a")[-1] in policy.end_tokens


def test_all_that_decides_an_answer_is_in_the_fingerprint(folder: Path) -> None:
    """Another end, another template or another tokenizer is another policy."""

    def identify() -> str:
        return load_policy(PolicyConfig(name=str(folder)), "cpu").fingerprint

    seen = {identify()}
    template = (folder / "chat_template.jinja").read_text()
    for change in (
        edit("generation_config.json", eos_token_id=[2, 5]),
        put("chat_template.jinja", template + " "),
        edit("tokenizer_config.json", eos_token="<|im_start|>"),
    ):
        change(folder)
        seen.add(identify())
    assert len(seen) == 4


def trained(policy: Policy, folder: Path, seed: int) -> Path:
    """An adapter that changes much."""
    attach_adapter(policy, LoraShape(rank=4), seed)
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, weight in policy.model.named_parameters():
            if "lora_B" in name:
                weight.normal_()
    save_adapter(policy, folder)
    return folder


def weights_of(policy: Policy) -> dict[str, Any]:
    return {name: weight.clone() for name, weight in policy.model.named_parameters() if "lora_" in name}


def test_an_adapter_of_few_layers_leaves_nothing_of_the_last(make_policy: MakePolicy, tmp_path: Path) -> None:
    """Layers that an adapter leaves out are as in a new one, whichever adapter was there before."""
    policy = make_policy("llama")
    one, other = trained(policy, tmp_path / "one", 1), trained(policy, tmp_path / "other", 2)
    without("k_proj", "adapter_model.safetensors")(one)
    edit("adapter_config.json", target_modules=["q_proj", "v_proj", "o_proj"])(one)
    load_adapter(policy, one)
    fresh = make_policy("llama")
    load_adapter(fresh, one)
    load_adapter(policy, other)
    load_adapter(policy, one)
    for name, weight in weights_of(fresh).items():
        assert torch.equal(weights_of(policy)[name], weight), name
        assert "k_proj.lora_B" not in name or not weight.any()


FOREIGN: dict[str, tuple[Change, str]] = {
    "another scale": (edit("adapter_config.json", use_rslora=True), "use_rslora = True is not supported"),
    "other scales of some layers": (edit("adapter_config.json", alpha_pattern={"q_proj": 2}), "alpha_pattern"),
    "a start from other weights": (edit("adapter_config.json", init_lora_weights="pissa"), "init_lora_weights"),
    "whole layers": (edit("adapter_config.json", modules_to_save=["lm_head"]), "modules_to_save"),
    "a layer that is missing": (without("layers.1.mlp.up", "adapter_model.safetensors"), "not whole: .*up_proj"),
    "another kind": (edit("adapter_config.json", peft_type="PROMPT_TUNING"), "not of LoRA"),
    "cut weights": (put("adapter_model.safetensors", "cut"), "SafetensorError"),
    "no weights": (lambda folder: (folder / "adapter_model.safetensors").unlink(), "adapter_model.safetensors"),
    "cut configuration": (put("adapter_config.json", "{"), "JSONDecodeError"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_adapters_are_one_line(make_policy: MakePolicy, tmp_path: Path, name: str) -> None:
    """An adapter that would be read as something else is refused."""
    policy = make_policy("llama")
    adapter = trained(policy, tmp_path / "adapter", 1)
    shutil.copytree(adapter, tmp_path / "foreign")
    change, expected = FOREIGN[name]
    change(tmp_path / "foreign")
    with pytest.raises(UsageError, match=expected) as caught:
        load_adapter(policy, tmp_path / "foreign")
    assert "\n" not in str(caught.value)


def test_an_adapter_of_another_model_is_one_line(make_policy: MakePolicy, tmp_path: Path) -> None:
    """Other shapes, or layers that are not there, are named."""
    adapter = trained(make_policy("llama"), tmp_path / "adapter", 1)
    tensors = load_file(adapter / "adapter_model.safetensors")
    name = min(tensors)
    for changed, expected in (
        ({**tensors, name: tensors[name][:, :3].clone()}, r"another model \(llama\): .*, not \("),
        (
            {**tensors, name.replace("layers.0", "layers.9"): tensors[name].clone()},
            r"another model \(llama\): .*layers\.9",
        ),
    ):
        save_file(changed, adapter / "adapter_model.safetensors", metadata={"format": "pt"})
        with pytest.raises(UsageError, match=expected):
            load_adapter(make_policy("llama"), adapter)


def test_a_folder_read_in_eight_bit_is_whole(folder: Path) -> None:
    """What quantization adds to the weights is not taken for missing."""
    policy = load_policy(PolicyConfig(name=str(folder), quantization="8bit"), "cpu")
    assert type(policy.base.model.layers[0].mlp.up_proj).__name__ == "Linear8bitLt"
