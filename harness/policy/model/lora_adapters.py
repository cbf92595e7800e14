"""LoRA adapters by peft: attach, reset, save and load.

An adapter's folder is in peft's format (`adapter_model.safetensors`, `adapter_config.json`), so any tool that reads
peft reads it. It appears whole or not at all, and equal adapters are equal bytes: keys and lists are sorted.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...errors import UsageError
from .checks import one_line
from .fused_lora import make_dropout
from .load import LoraShape, Policy

FREE_KEYS = frozenset(
    {"auto_mapping", "base_model_name_or_path", "exclude_modules", "inference_mode", "layers_pattern"}
    | {"layers_to_transform", "lora_alpha", "lora_dropout", "peft_type", "peft_version", "r", "revision"}
    | {"target_modules", "task_type"}
)
"""The keys of an adapter's configuration that are heeded, or change nothing that it computes."""
SAME_IN_THE_END = (("init_lora_weights", "gaussian"), ("init_lora_weights", False), ("init_lora_weights", "orthogonal"))
"""Other ways to begin, which training leaves behind, and which leave the model's own weights alone."""


def _lora_weights(policy: Policy) -> list[tuple[str, Any]]:
    """The trainable parameters by name."""
    return [(name, weight) for name, weight in policy.model.named_parameters() if "lora_" in name]


def attach_adapter(policy: Policy, shape: LoraShape, seed: int) -> None:
    """Give the policy a new adapter of this shape, which changes nothing until it is trained; replaces an older one.

    Raises UsageError where peft has none for the policy's model.
    """
    if policy.lora == shape:
        reset_adapter(policy, seed)
        return
    from peft import LoraConfig, get_peft_model

    detach_adapter(policy)
    config = LoraConfig(
        r=shape.rank,
        lora_alpha=shape.alpha,
        lora_dropout=shape.dropout,
        target_modules="all-linear",
        bias="none",
        task_type="CAUSAL_LM",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            policy.model = get_peft_model(policy.model, config)
        except ValueError as error:
            raise UsageError(f"the policy {policy.name!r} takes no LoRA adapter: {one_line(error)}") from error
    for module in policy.model.modules():
        if shape.dropout > 0.0 and hasattr(module, "lora_dropout"):
            module.lora_dropout["default"] = make_dropout(shape.dropout)
    policy.lora = shape
    reset_adapter(policy, seed)


def detach_adapter(policy: Policy) -> None:
    """Take the policy's adapter away, if it has one."""
    if policy.lora is not None:
        policy.model = policy.model.unload()
        policy.lora = None


def reset_adapter(policy: Policy, seed: int) -> None:
    """Back to an adapter that changes nothing, its first factors drawn anew from `seed` as peft draws them."""
    import torch

    generator = torch.Generator().manual_seed(seed % 2**63)
    with torch.no_grad():
        for name, weight in _lora_weights(policy):
            if "lora_B" in name:
                weight.zero_()
            else:
                bound = 1.0 / math.sqrt(weight.shape[1])  # Kaiming uniform with a = sqrt(5)
                drawn = torch.empty(weight.shape, dtype=torch.float32).uniform_(-bound, bound, generator=generator)
                weight.copy_(drawn)


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """A folder beside another, to be filled, which takes its place in one step unless filling it fails."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        yield scratch
        for path in (scratch, *scratch.iterdir()):
            path.chmod(0o755 if path.is_dir() else 0o644)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def save_adapter(policy: Policy, folder: Path) -> None:
    """Write the adapter's folder, replacing one that is there, in one step."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    if policy.lora is None:
        raise ValueError("the policy has no adapter to save")
    with replaced_folder(folder) as scratch:
        state = get_peft_model_state_dict(policy.model, save_embedding_layers=False)
        tensors = {name: state[name].detach().cpu().contiguous() for name in sorted(state)}
        save_file(tensors, scratch / "adapter_model.safetensors", metadata={"format": "pt"})
        plain = policy.model.peft_config["default"].to_dict()
        plain["base_model_name_or_path"] = policy.name
        plain = {key: sorted(value) if isinstance(value, (list, set)) else value for key, value in plain.items()}
        (scratch / "adapter_config.json").write_text(json.dumps(plain, indent=1, sort_keys=True, default=str))


def load_adapter(policy: Policy, folder: Path) -> None:
    """Put the adapter of `folder` in place of the policy's, if it has one; what it leaves out changes nothing.

    Raises UsageError for a folder that is broken, of another model, or more than LoRA as `attach_adapter` makes it.
    """
    from safetensors.torch import load_file

    try:
        config = json.loads((folder / "adapter_config.json").read_text())
        problem = _why_not(config)
        if problem is None:
            shape = LoraShape(rank=config["r"], alpha=config["lora_alpha"], dropout=config["lora_dropout"])
            state = load_file(folder / "adapter_model.safetensors")
            if policy.lora != shape:
                attach_adapter(policy, shape, 0)
            problem = _put(policy, state, config)
    except UsageError:
        raise
    except Exception as error:  # what libraries raise over a broken folder is of a dozen classes
        problem = one_line(error)
    if problem is not None:
        raise UsageError(f"the adapter {folder} cannot be loaded: {problem}")


def _why_not(config: Any) -> str | None:
    """Why an adapter of this configuration is none that `attach_adapter` makes, or null."""
    from peft import LoraConfig

    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        return "its adapter_config.json is not of LoRA"
    usual = LoraConfig().to_dict()
    for key in sorted(config):
        value = config[key]
        is_usual = value == usual.get(key, value if value is not True else None)
        if not (is_usual or key in FREE_KEYS or (key, value) in SAME_IN_THE_END):
            return f"{key} = {value!r} is not supported"
    return None


def _put(policy: Policy, state: dict[str, Any], config: dict[str, Any]) -> str | None:
    """Write an adapter's weights into the policy's, which change nothing before; what is wrong with them, or null."""
    from peft import set_peft_model_state_dict

    another = f"it is an adapter of another model ({config.get('base_model_name_or_path') or 'unknown'})"
    known = {name.replace(".default.", "."): weight for name, weight in _lora_weights(policy)}
    for name, weight in sorted(state.items()):
        if name not in known:
            return f"{another}: {name}"
        if weight.shape != known[name].shape:
            shapes = f"{tuple(weight.shape)}, not {tuple(known[name].shape)}"
            return f"{another}: {name} is {shapes}"
    targets, missing = config.get("target_modules"), sorted(known.keys() - state.keys())
    if isinstance(targets, list) and config.get("layers_to_transform") is None:
        for name in missing:
            layer = "." + name.rpartition(".lora_")[0]
            if any(layer.endswith(f".{target}") for target in targets):
                return f"{another}, or not whole: {name} is missing"
    if missing:
        reset_adapter(policy, 0)
    set_peft_model_state_dict(policy.model, state)
    return None
