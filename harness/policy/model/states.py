"""Loads, saves and identifies a policy's states (checkpoints), each named by its folder.

No folder is the base model. A folder holds a LoRA adapter in peft's format; or all weights, with configuration and
tokenizer, so that it also loads as a policy of its own; or an adapter over such weights, which are in its subfolder
`base` (hard links where the file system has them). Weights are written into the model's own tensors, which therefore
stay where they are; the model's own are kept in the CPU's memory from the first time that others take their place.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

from ....core.serialisation import fingerprint
from ...errors import UsageError
from .checks import one_line
from .load import Policy
from .lora_adapters import attach_adapter, detach_adapter, load_adapter, replaced_folder, reset_adapter, save_adapter

WEIGHTS = "model.safetensors"
BASE = "base"


def holds_weights(folder: Path) -> bool:
    """Whether a folder has all weights of a model, and not an adapter."""
    return (folder / WEIGHTS).is_file() and not (folder / "adapter_config.json").is_file()


def identify_state(folder: Path) -> str:
    """The identity of a state's files, wherever they are; raises UsageError where there is none."""
    if holds_weights(folder):
        files = [folder / WEIGHTS]
    elif (folder / "adapter_config.json").is_file():
        files = sorted(path for path in folder.glob("adapter_*") if path.is_file())
        files += [path for path in [folder / BASE / WEIGHTS] if path.is_file()]
    else:
        raise UsageError(f"--adapter {folder}: no adapter_config.json there, nor {WEIGHTS}")
    return fingerprint([[path.name, _digest(path)] for path in files])


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def enter_state(policy: Policy, folder: Path | None) -> None:
    """Make the policy that of a folder, or the base model; raises UsageError for one that is no state of it."""
    if folder is None or holds_weights(folder):
        _put_weights(policy, folder)
        if policy.lora is not None:
            reset_adapter(policy, 0)
        return
    base = folder / BASE
    _put_weights(policy, base if holds_weights(base) else None)
    load_adapter(policy, folder)


def continue_adapter(policy: Policy, folder: Path | None, shape: Any, seed: int) -> None:
    """Enter a state whose adapter can be trained: a new one of this shape where the folder has none."""
    if folder is None or holds_weights(folder):
        _put_weights(policy, folder)
        attach_adapter(policy, shape, seed)
    else:
        enter_state(policy, folder)


def open_weights(policy: Policy, folder: Path | None) -> None:
    """Enter a state and let all its weights be trained; raises UsageError where they are quantized, or an adapter's."""
    if getattr(policy.base, "is_quantized", False):
        raise UsageError("sft.method: full trains all weights, and those of policy.quantization = 8bit cannot be")
    if folder is not None and not holds_weights(folder):
        raise UsageError(f"sft.method: full goes on from weights, and {folder} holds an adapter")
    _put_weights(policy, folder)
    detach_adapter(policy)
    _keep_own(policy)
    policy.model.requires_grad_(True)
    policy.is_open = True
    policy.whose = "being trained"


def save_state(policy: Policy, folder: Path, before: Path | None = None) -> None:
    """Write the policy's state: its open weights, or its adapter over the weights of the state that it began in."""
    if not policy.is_open:
        base = before if before is None or holds_weights(before) else before / BASE
        save_adapter(policy, folder)
        if base is not None and holds_weights(base):
            _link(base, folder / BASE)
        return
    from safetensors.torch import save_file

    with replaced_folder(folder) as scratch:
        weights = {name: weight.detach().cpu().contiguous() for name, weight in sorted(_weights(policy).items())}
        save_file(weights, scratch / WEIGHTS, metadata={"format": "pt"})
        policy.model.config.save_pretrained(scratch)
        policy.model.generation_config.save_pretrained(scratch)
        policy.tokenizer.save_pretrained(scratch)
    policy.whose = _mark(folder)


def close_weights(policy: Policy) -> None:
    """End the training of all weights, where it is under way."""
    if policy.is_open:
        policy.is_open = False
        policy.model.requires_grad_(False)


def copy_state(folder: Path, target: Path) -> None:
    """Copy a state's folder, replacing what is there; weights are linked."""
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    _link(folder, target)


def _link(folder: Path, target: Path) -> None:
    def link(source: str, place: str) -> str:
        try:
            os.link(source, place)
        except OSError:  # another file system, or one without links
            shutil.copy2(source, place)
        return place

    shutil.copytree(folder, target, copy_function=link)


def _weights(policy: Policy) -> dict[str, Any]:
    """The base model's weights by the names that they have without an adapter; those that are tied once."""
    return {
        name.replace(".base_layer.", "."): weight
        for name, weight in policy.base.named_parameters()
        if "lora_" not in name
    }


def _mark(folder: Path) -> tuple[int, ...]:
    """What tells a file of weights from others without reading it; links to one file have one mark."""
    found = (folder / WEIGHTS).stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _keep_own(policy: Policy) -> None:
    if policy.own is None:
        policy.own = {name: weight.detach().to("cpu", copy=True) for name, weight in _weights(policy).items()}


def _put_weights(policy: Policy, folder: Path | None) -> None:
    """Write a folder's weights into the model, or its own; nothing where they are there already."""
    import torch
    from safetensors.torch import load_file

    mark = None if folder is None else _mark(folder)
    if policy.whose == mark:
        return
    _keep_own(policy)
    try:
        found = policy.own if folder is None else load_file(folder / WEIGHTS)
    except Exception as error:  # what libraries raise over a broken file is of a dozen classes
        raise UsageError(f"the weights {folder} cannot be loaded: {one_line(error)}") from error
    places = _weights(policy)
    for name in sorted({*places, *found}):
        if name not in places or name not in found or found[name].shape != places[name].shape:
            raise UsageError(f"the weights {folder} cannot be loaded: they are another model's ({name})")
    policy.whose = "being replaced"
    with torch.no_grad():
        for name, weight in places.items():
            weight.copy_(found[name])
    policy.whose = mark
