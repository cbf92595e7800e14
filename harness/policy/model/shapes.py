"""Policies with random weights of a known architecture: `random:SHAPE`, or `random:SHAPE@LAYERS` for a shallower one.

They compute nothing of use, and cost in time and memory what the real ones cost. So what cannot be had here, the 7 B
model of the study, is proven at its full size without its weights. The shapes are those of the published
configurations: SmolLM2-135M-Instruct (`HuggingFaceTB/SmolLM2-135M-Instruct`) and Qwen2.5-Coder-7B-Instruct
(`Qwen/Qwen2.5-Coder-7B-Instruct`, 7.6 B parameters). In 8 bit every layer is drawn and quantized by itself, so that
the whole model never lies in memory unquantized. Text is read with `nano`'s tokenizer, whose tokens every shape has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...errors import UsageError

PREFIX = "random:"
SHAPES: dict[str, dict[str, Any]] = {
    "smollm2-135m": {
        "model_type": "llama",
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0},
        "tie_word_embeddings": True,
    },
    "qwen2.5-coder-7b": {
        "model_type": "qwen2",
        "vocab_size": 152064,
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
        "tie_word_embeddings": False,
    },
}


def read_shape(text: str) -> Any:
    """The configuration that `SHAPE`, `SHAPE@LAYERS` or the path of a `config.json` names; raises UsageError."""
    from transformers import AutoConfig

    name, _, layers = text.partition("@")
    if name in SHAPES:
        config = AutoConfig.for_model(**SHAPES[name])
    elif Path(name).is_file():
        config = AutoConfig.from_pretrained(name)
    else:
        raise UsageError(f"{name!r} is neither a config.json nor a shape: {', '.join(SHAPES)}")
    if layers:
        if not layers.isdecimal() or not 1 <= int(layers) <= config.num_hidden_layers:
            raise UsageError(f"{text!r}: the layers are 1 to {config.num_hidden_layers}")
        config.num_hidden_layers = int(layers)
        kinds = getattr(config, "layer_types", None)
        config.layer_types = kinds[: int(layers)] if kinds else kinds
    config.bos_token_id = config.eos_token_id = None
    return config


def make_random(config: Any, seed: int, device: str, dtype: Any, quantization: str = "none") -> Any:
    """A model of this configuration with random weights, its linear layers in 8 bit where `quantization` says so."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    if quantization == "8bit":
        return _make_quantized(config, seed, device, dtype)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            # layers that outweigh a tied embedding: else the likeliest token is the last one again, whatever they do
            if weight.ndim > 1:
                weight.mul_(0.1 if "embed" in name else 2.0)
    return model.to(device)


def _make_quantized(config: Any, seed: int, device: str, dtype: Any) -> Any:
    """`make_random` in 8 bit; what transformers leaves unquantized, embedding and head, stays so here."""
    import torch
    from bitsandbytes.nn import Int8Params, Linear8bitLt
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    generator = torch.Generator(device).manual_seed(seed)

    def draw(shape: Any, scale: float) -> Any:
        return torch.empty(shape, dtype=dtype, device=device).normal_(std=scale, generator=generator)

    for name, module in list(model.model.named_modules()):
        if not isinstance(module, torch.nn.Linear):
            continue
        has_bias = module.bias is not None
        quantized = Linear8bitLt(
            module.in_features, module.out_features, bias=has_bias, has_fp16_weights=False, threshold=6.0, device="meta"
        )
        weight = draw((module.out_features, module.in_features), 2.0 * config.initializer_range)
        # it quantizes where it comes from another device or is told to move, so the draw goes by way of the CPU
        quantized.weight = Int8Params(weight.cpu(), requires_grad=False, has_fp16_weights=False).to(device)
        if has_bias:
            quantized.bias = torch.nn.Parameter(draw(module.out_features, 0.5), requires_grad=False)
        model.model.set_submodule(name, quantized)
    for name, parameter in list(model.named_parameters()):
        if parameter.is_meta:
            scale = (0.1 if "embed" in name else 2.0) * config.initializer_range
            ones = torch.ones(parameter.shape, dtype=dtype, device=device)
            filled = draw(parameter.shape, scale) if parameter.ndim > 1 else ones
            owner, _, last = name.rpartition(".")
            setattr(model.get_submodule(owner), last, torch.nn.Parameter(filled, requires_grad=False))
    model.tie_weights()
    _refill_rotary(model, config, device)
    model.is_quantized = model.is_loaded_in_8bit = True
    return model.eval()


def _refill_rotary(model: Any, config: Any, device: str) -> None:
    """Make the module of the rotary embedding anew, whose buffers hold no values on the meta device."""
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config).to(device)
