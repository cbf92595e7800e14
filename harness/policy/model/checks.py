"""Whether a model and tokenizer that transformers loaded can serve as a policy; if not, the reason in one line.

transformers loads more than it should: weights that a file lacks are drawn at random, with no more than a warning, and
a tokenizer may lack a chat template or an end, or number tokens that the model does not have. Each would show long
after loading, as an error from deep within, or never. What decoding relies on is checked here too: keys and values in
transformers' own cache. A model with another memory (Mamba, RWKV) takes that cache and ignores it.
"""

from __future__ import annotations

import inspect
from typing import Any

_PROBE = "probe 7"
_LONGEST_REASON = 300


def one_line(error: BaseException) -> str:
    """An error of a library in one line: its class, where that says what the text does not, and the text, cut short."""
    text = " ".join(str(error).split())
    text = text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."
    says_enough = type(error) in (OSError, ValueError, ImportError) and text
    return text if says_enough else f"{type(error).__name__}: {text}"


def why_not_weights(loading: dict[str, Any]) -> str | None:
    """What is wrong with the weights by transformers' account of their loading, or null."""
    missing, mismatched = sorted(loading["missing_keys"]), sorted(loading["mismatched_keys"])
    if mismatched:
        name, found, wanted = mismatched[0]
        return f"{name} is {tuple(found)} in its weights, and {tuple(wanted)} by its config.json{_others(mismatched)}"
    if missing:
        return f"its weights lack {missing[0]}{_others(missing)}"
    return None


def _others(names: list[Any]) -> str:
    return f", and {len(names) - 1} more" if len(names) > 1 else ""


def why_not_model(model: Any) -> str | None:
    """Why a model cannot be sampled, or null."""
    if not getattr(model.config, "is_decoder", True) and _looks_ahead(model):
        return f"a model of type {model.config.model_type} reads both ways here, and does not continue a text"
    keeps_another = getattr(model, "_is_stateful", False)
    # transformers 5.24 calls it `cache`, and takes the older name too until 5.40
    takes_cache = {"past_key_values", "cache"} & inspect.signature(model.forward).parameters.keys()
    if keeps_another or not takes_cache:
        return f"a model of type {model.config.model_type} keeps no keys and values, which sampling needs"
    return None


def _looks_ahead(model: Any) -> bool:
    """Whether what a model makes of a token depends on the next one."""
    import torch

    pairs = torch.tensor([[0, 0], [0, 1]], device=model.get_input_embeddings().weight.device)
    with torch.no_grad():
        one, other = (model(input_ids=pair[None]).logits[0, 0] for pair in pairs)
    # the same arithmetic on the same numbers, but for 8-bit layers, which look at all of their input
    return not getattr(model, "is_quantized", False) and not torch.allclose(one, other, rtol=1e-5, atol=1e-6)


def why_not_tokenizer(tokenizer: Any, model: Any) -> str | None:
    """Why a tokenizer cannot serve the model, or null."""
    rows = model.get_input_embeddings().num_embeddings
    if tokenizer.vocab_size > rows:
        return f"its tokenizer has {tokenizer.vocab_size} tokens, the model {rows}"
    if tokenizer.eos_token_id is None:
        return "neither its tokenizer nor its generation_config.json names the token that ends an answer"
    if not tokenizer.chat_template:
        return "its tokenizer has no chat template, so it is no model that answers"
    try:
        turn = tokenizer.apply_chat_template(
            [{"role": "user", "content": _PROBE}], add_generation_prompt=True, tokenize=False
        )
    except Exception as error:  # whatever a template raises
        return f"its chat template fails: {one_line(error)}"
    return None if _PROBE in turn else "its chat template leaves out what the user says"


def name_end(tokenizer: Any, model: Any) -> None:
    """Let a tokenizer that names no end have the model's."""
    ends = model.generation_config.eos_token_id
    first = ends[0] if isinstance(ends, list) and ends else ends
    if tokenizer.eos_token_id is None and isinstance(first, int):
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(first)
