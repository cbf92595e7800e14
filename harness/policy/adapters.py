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
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .dropout import make_dropout
from .load import LoraShape, Policy

_PLAIN = {
    "peft_type": "LORA",
    "bias": "none",
    **dict.fromkeys(("use_rslora", "use_dora", "lora_bias", "fan_in_fan_out", "rank_pattern", "alpha_pattern")),
    **dict.fromkeys(("modules_to_save", "target_parameters", "trainable_token_indices", "layer_replication")),
}
"""What peft's configuration says of adapters that are computed here; null where a key must say nothing."""


def _lora_weights(policy: Policy) -> list[tuple[str, Any]]:
    """The trainable parameters by name."""
    return [(name, weight) for name, weight in policy.model.named_parameters() if "lora_" in name]


def attach_adapter(policy: Policy, shape: LoraShape, seed: int) -> None:
    """Give the policy a new adapter of this shape, which changes nothing until it is trained; replaces an older one."""
    if policy.lora == shape:
        reset_adapter(policy, seed)
        return
    from peft import LoraConfig, get_peft_model

    if policy.lora is not None:
        policy.model = policy.model.unload()
        policy.lora = None
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
        policy.model = get_peft_model(policy.model, config)
    for module in policy.model.modules():
        if shape.dropout > 0.0 and hasattr(module, "lora_dropout"):
            module.lora_dropout["default"] = make_dropout(shape.dropout)
    policy.lora = shape
    reset_adapter(policy, seed)


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


def save_adapter(policy: Policy, folder: Path) -> None:
    """Write the adapter's folder, replacing one that is there, in one step."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    if policy.lora is None:
        raise ValueError("the policy has no adapter to save")
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        state = get_peft_model_state_dict(policy.model, save_embedding_layers=False)
        tensors = {name: state[name].detach().cpu().contiguous() for name in sorted(state)}
        save_file(tensors, scratch / "adapter_model.safetensors", metadata={"format": "pt"})
        plain = policy.model.peft_config["default"].to_dict()
        plain["base_model_name_or_path"] = policy.name
        plain = {key: sorted(value) if isinstance(value, (list, set)) else value for key, value in plain.items()}
        (scratch / "adapter_config.json").write_text(json.dumps(plain, indent=1, sort_keys=True, default=str))
        for path in (scratch, *scratch.iterdir()):
            path.chmod(0o755 if path.is_dir() else 0o644)
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def load_adapter(policy: Policy, folder: Path) -> None:
    """Put the adapter of `folder` in place of the policy's, if it has one.

    It may adapt fewer layers than ours do; the others are as without one. Raises UsageError where there is no LoRA
    adapter, for one that is more than plain LoRA, and for another model's.
    """
    from peft import get_peft_model_state_dict, set_peft_model_state_dict
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        config = json.loads((folder / "adapter_config.json").read_text())
        shape = LoraShape(rank=config["r"], alpha=config["lora_alpha"], dropout=config["lora_dropout"])
        tensors = load_file(folder / "adapter_model.safetensors")
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise UsageError(f"{folder}: no LoRA adapter there ({type(error).__name__}: {error})") from None
    beyond = [key for key, plain in _PLAIN.items() if config.get(key) and config[key] != plain]
    if beyond:
        raise UsageError(f"{folder}: not a plain LoRA adapter: {', '.join(f'{key} {config[key]}' for key in beyond)}")
    if policy.lora != shape:
        attach_adapter(policy, shape, 0)
    own = get_peft_model_state_dict(policy.model, save_embedding_layers=False)
    for name, tensor in tensors.items():
        if name not in own or own[name].shape != tensor.shape:
            theirs = config.get("base_model_name_or_path") or "unknown"
            found = f"{list(own[name].shape)} here" if name in own else "not here"
            raise UsageError(
                f"{folder} is an adapter of another model ({theirs}, and this is {policy.name}): "
                f"{name}: {list(tensor.shape)}, and {found}"
            )
    if len(tensors) < len(own):
        reset_adapter(policy, 0)
    set_peft_model_state_dict(policy.model, tensors)
