"""Loading a policy by name: `nano`, which is shipped; `smollm2`, which a package brings; `random:SHAPE`, for measuring;
a GGUF file; or any causal language model of Hugging Face by name or folder.

A policy's fingerprint says which numbers it computes with: for a folder the hash of its weights, configuration (that of
generation too, which names ends) and tokenizer, for a GGUF file the hash of the file, for a name the revision that was
loaded; and dtype and quantization besides. What cannot serve as a policy is refused (`checks`). LoRA adapters are
attached by peft to every linear layer of the trunk, as in the study.
"""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from ....core.config import PolicyConfig
from ....core.config_fields import suggest
from ...datasets.place import require_model
from ...errors import UsageError
from . import gguf, shapes
from .checks import name_end, one_line, why_not_model, why_not_tokenizer, why_not_weights

NANO_FOLDER = Path(__file__).parents[1] / "nano"
FINGERPRINTED = (
    *("*.safetensors", "*.bin", "config.json", "generation_config.json", "tokenizer*", "special_tokens_map.json"),
    *("added_tokens.json", "vocab.*", "merges.txt", "chat_template*"),
)
"""The files of a folder that decide what its policy writes."""


@frozen(kw_only=True)
class LoraShape:
    """A LoRA adapter's rank, scale numerator and dropout."""

    rank: int = 16
    alpha: int = 32
    dropout: float = 0.05


@define(kw_only=True)
class Policy:
    """A causal language model with its tokenizer; `model` gains LoRA layers when an adapter is attached.

    `cache` is what sampling keeps between calls (`SamplerCache`), or null; `is_open` says that all weights are being
    trained; `whose` and `own` are kept by `states`: whose weights are in place, and the policy's own where others are.
    """

    model: Any
    tokenizer: Any
    name: str
    fingerprint: str
    lora: LoraShape | None = None
    cache: Any = field(default=None, init=False, eq=False, repr=False)
    is_open: bool = field(default=False, init=False)
    whose: Any = field(default=None, init=False, eq=False, repr=False)
    own: Any = field(default=None, init=False, eq=False, repr=False)

    @property
    def base(self) -> Any:
        """The transformers model, LoRA layers included where they are attached."""
        return self.model.get_base_model() if self.lora else self.model

    @property
    def device(self) -> Any:
        """Where the model's parameters are."""
        return self.base.get_input_embeddings().weight.device

    @property
    def end_tokens(self) -> frozenset[int]:
        listed = self.base.generation_config.eos_token_id
        listed = [listed] if isinstance(listed, int) else list(listed or ())
        return frozenset([*listed, self.tokenizer.eos_token_id])

    def encode_prompt(self, prompt: str) -> list[int]:
        """Tokens of a user's message in the model's chat template, up to where the answer starts."""
        return list(self.tokenizer.encode(self._turn(prompt), add_special_tokens=False))

    def encode_answer(self, answer: str) -> list[int]:
        """Tokens of an answer with the token that ends it."""
        return [*self.tokenizer.encode(answer, add_special_tokens=False), self.tokenizer.eos_token_id]

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        """`encode_prompt` and `encode_answer` of each pair, on all processors."""
        if not pairs:
            return []
        prompts, answers = (
            self.tokenizer(list(texts), add_special_tokens=False)["input_ids"]
            for texts in zip(*((self._turn(prompt), answer) for prompt, answer in pairs), strict=True)
        )
        end = self.tokenizer.eos_token_id
        return [(list(prompt), [*answer, end]) for prompt, answer in zip(prompts, answers, strict=True)]

    def _turn(self, prompt: str) -> str:
        """A user's message in the model's chat template, up to where the answer starts."""
        text: str = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
        )
        return text


def _folder_digest(folder: Path) -> str:
    """SHA-256 over the files of a model's folder that decide what it computes."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in FINGERPRINTED for path in folder.glob(pattern) if path.is_file()}):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def find_folder(name: str) -> Path | None:
    """The folder that a policy's name stands for, or null where that is a name of the hub's.

    Raises UsageError for what can only be a path, and is no folder.
    """
    folder = NANO_FOLDER if name == "nano" else Path(name)
    if folder.is_dir():
        if (folder / "adapter_config.json").is_file() and not (folder / "config.json").is_file():
            raise UsageError(f"the policy {name!r} cannot be loaded: it is an adapter, which belongs to a policy")
        return folder
    if folder.is_file():
        raise UsageError(f"the policy {name!r} cannot be loaded: it is a file, neither a folder of weights nor .gguf")
    if name.startswith(("./", "../", "/", "~")):
        hint = " (~ is not expanded here)" if name.startswith("~") else ""
        raise UsageError(f"the policy {name!r} cannot be loaded: no such folder{hint}")
    return None


def find_weights(name: str) -> tuple[str, str | None]:
    """The folder or the hub's name that a policy's name stands for, and its identity where that is known by now.

    Raises UsageError where it stands for nothing.
    """
    if name.startswith(shapes.PREFIX):
        return str(NANO_FOLDER), name
    if name == "smollm2" or name.endswith(".gguf"):
        file = gguf.find_smollm2() if name == "smollm2" else Path(name)
        if not file.is_file():
            raise UsageError(f"the policy {name!r} cannot be loaded: no such file")
        return str(gguf.convert(file)), gguf.identify(file)
    folder = find_folder(name)
    if folder is None:
        hint = suggest(name, ("nano", "smollm2"))
        require_model(name, f"the policy {name!r} cannot be loaded: no folder {name}{hint}")
        return name, None
    return str(folder), _folder_digest(folder)


def _read_weights(source: str, config: PolicyConfig, device: str, dtype: Any) -> Any:
    """The model of a folder or a hub's name, on the device; raises ValueError where its weights are not its own."""
    from transformers import AutoModelForCausalLM

    # what does not fit is told in our words: transformers tells it in a report to its log
    options: dict[str, Any] = {"dtype": dtype, "output_loading_info": True, "ignore_mismatched_sizes": True}
    if config.quantization == "8bit":
        from transformers import BitsAndBytesConfig

        options.update(quantization_config=BitsAndBytesConfig(load_in_8bit=True), device_map={"": device})
    model, loading = AutoModelForCausalLM.from_pretrained(source, **options)
    _require(why_not_weights(loading))
    return model if config.quantization == "8bit" else model.to(device)


def _require(problem: str | None) -> None:
    if problem is not None:
        raise ValueError(problem)


def load_policy(config: PolicyConfig, device: str | None = None) -> Policy:
    """The policy that `config` names, on `device` (default: a GPU where there is one).

    dtype "auto" is float32 on the CPU and bfloat16 on a GPU. Raises UsageError where it cannot be loaded.
    """
    import torch
    from transformers import AutoTokenizer
    from transformers.utils.logging import disable_progress_bar, set_verbosity_error

    disable_progress_bar()
    set_verbosity_error()
    # transformers and peft import it; it warns of an optional CPU kernel that nothing here uses
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    if config.threads:
        torch.set_num_threads(config.threads)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    is_cpu = torch.device(device).type == "cpu"
    if not is_cpu and config.gpu_memory < 1.0:
        torch.cuda.set_per_process_memory_fraction(config.gpu_memory, torch.device(device).index)
    dtype = {"auto": torch.float32 if is_cpu else torch.bfloat16}.get(config.dtype)
    dtype = dtype or getattr(torch, config.dtype)
    try:
        source, identity = find_weights(config.name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if config.name.startswith(shapes.PREFIX):
                shape = shapes.read_shape(config.name.removeprefix(shapes.PREFIX))
                model = shapes.make_random(shape, 0, device, dtype, config.quantization)
            else:
                model = _read_weights(source, config, device, dtype)
            _require(why_not_model(model))
            tokenizer = AutoTokenizer.from_pretrained(source)
            name_end(tokenizer, model)
            _require(why_not_tokenizer(tokenizer, model))
    except UsageError:
        raise
    except Exception as error:  # what libraries raise over a broken folder is of a dozen classes
        raise UsageError(f"the policy {config.name!r} cannot be loaded: {one_line(error)}") from error
    model.eval()
    identity = identity or f"{config.name}@{getattr(model.config, '_commit_hash', None) or 'unknown'}"
    text = f"{identity} {config.quantization} {dtype}"
    return Policy(
        model=model, tokenizer=tokenizer, name=config.name, fingerprint=hashlib.sha256(text.encode()).hexdigest()
    )
