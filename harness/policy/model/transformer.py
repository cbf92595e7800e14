"""The forward pass of Llama-type and Qwen2-type models, written over the modules of transformers.

One function serves pretraining and fine-tuning, with attention as an argument: what a token may see is the caller's
decision (packed documents in pretraining, right-padded rows in fine-tuning). Calling it in place of the model's own
`forward` keeps the two compilable and independent of changes in transformers; a test holds the results equal. Linear
layers are called as modules, so that LoRA layers in their place act, or by what is given in their place (`fused_lora`).

Documents of a packed row must not leak into one another. Three ways give the same result: `attend_by_parts` cuts the
row at the borders, which is best on a CPU; `attend_by_lengths` hands the borders to one kernel (FlashAttention in
torch, half precision on a GPU); and a mask of equal documents is what pretraining uses, whose rows all have one length.
`attend_by_borders` reads the borders from a tensor alone, which a captured graph needs where there is no such kernel.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(queries, keys, values) -> result, all (rows, heads, tokens, head size), with fewer heads for keys and values."""

Project = Callable[[Sequence[Any], Tensor], list[Tensor]]
"""(linear layers of one input, the input) -> what each makes of it."""

SUPPORTED_TYPES = ("llama", "qwen2")
ROTARY_TYPES = ("default", "linear", "llama3", "yarn")
"""Rotary embeddings that turn a position by the same angles however long the text is; others follow its length."""


def is_supported(model: Any) -> bool:
    """Whether this module computes what the model's own `forward` computes: plain Llama or Qwen2, full attention."""
    config = model.config
    return (
        config.model_type in SUPPORTED_TYPES
        and getattr(config, "hidden_act", "") == "silu"
        and rotary_type(config) in ROTARY_TYPES
        and not getattr(config, "use_sliding_window", False)
    )


def rotary_type(config: Any) -> str:
    """The kind of a Llama or Qwen2 type's rotary embedding."""
    return str((getattr(config, "rope_parameters", None) or {}).get("rope_type", "default"))


def head_size(config: Any) -> int:
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def rotary_tables(config: Any, num_positions: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines of shape (positions, head size) for rotary embeddings, computed in float32."""
    if rotary_type(config) == "default":
        base = float((getattr(config, "rope_parameters", None) or {}).get("rope_theta", 10000.0))
        size = head_size(config)
        frequencies, scale = base ** -(torch.arange(0, size, 2, device=device, dtype=torch.float32) / size), 1.0
    else:
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

        frequencies, scale = ROPE_INIT_FUNCTIONS[rotary_type(config)](config, device)
    angles = torch.arange(num_positions, device=device, dtype=torch.float32)[:, None] * frequencies
    angles = torch.cat((angles, angles), dim=-1)
    return (angles.cos() * scale).to(dtype), (angles.sin() * scale).to(dtype)


def rotate(states: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotary embedding of `states`, whose last dimension is the head size."""
    first, second = states.chunk(2, dim=-1)
    return states * cosines + torch.cat((-second, first), dim=-1) * sines


def call_each(modules: Sequence[Any], states: Tensor) -> list[Tensor]:
    """What each linear layer makes of `states`, one after the other."""
    return [module(states) for module in modules]


def layer_states(
    layer: Any, hidden: Tensor, cosines: Tensor, sines: Tensor, attend: Attend, project: Project, config: Any
) -> Tensor:
    """What one layer makes of `hidden` (rows, tokens, hidden size)."""
    attention, mlp = layer.self_attn, layer.mlp
    rows, length, _ = hidden.shape
    size, epsilon = head_size(config), config.rms_norm_eps
    normed = functional.rms_norm(hidden, hidden.shape[-1:], layer.input_layernorm.weight, epsilon)
    queries, keys, values = (
        states.view(rows, length, -1, size).transpose(1, 2)
        for states in project((attention.q_proj, attention.k_proj, attention.v_proj), normed)
    )
    cosine, sine = cosines.to(queries.dtype), sines.to(queries.dtype)
    mixed = attend(rotate(queries, cosine, sine), rotate(keys, cosine, sine), values)
    (added,) = project((attention.o_proj,), mixed.transpose(1, 2).reshape(rows, length, -1))
    hidden = hidden + added
    normed = functional.rms_norm(hidden, hidden.shape[-1:], layer.post_attention_layernorm.weight, epsilon)
    gate, up = project((mlp.gate_proj, mlp.up_proj), normed)
    (added,) = project((mlp.down_proj,), functional.silu(gate) * up)
    return hidden + added


def hidden_states(
    model: Any,
    tokens: Tensor,
    cosines: Tensor,
    sines: Tensor,
    attend: Attend,
    project: Project = call_each,
    run: Callable[..., Tensor] = layer_states,
) -> Tensor:
    """Final hidden states (rows, tokens, hidden size) of `tokens` (rows, tokens).

    `cosines` and `sines` are the rotary tables gathered at the positions: (rows or 1, 1, tokens, head size). `run`
    stands in for `layer_states`, to compile a layer or to compute it anew for its gradients.
    """
    trunk, config = model.model, model.config
    hidden: Tensor = trunk.embed_tokens(tokens)
    for layer in trunk.layers:
        hidden = run(layer, hidden, cosines, sines, attend, project, config)
    return functional.rms_norm(hidden, hidden.shape[-1:], trunk.norm.weight, config.rms_norm_eps)


def attend_causally(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Each token sees the tokens of its row up to itself; right padding needs no mask then."""
    return functional.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=True)


def attend_densely(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Attention under a boolean mask; heads are repeated, because few kernels take a mask and grouped heads."""
    groups = queries.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(groups, dim=1), values.repeat_interleave(groups, dim=1)
    return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)


def attend_by_parts(queries: Tensor, keys: Tensor, values: Tensor, lengths: list[int]) -> Tensor:
    """Each document of one row by itself."""
    parts = zip(*(torch.split(states, lengths, dim=2) for states in (queries, keys, values)), strict=True)
    return torch.cat([attend_causally(*part) for part in parts], dim=2)


def attend_by_lengths(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    borders: Tensor,
    longest: int,
    kernel: Callable[..., Any],
    shares_heads: bool,
) -> Tensor:
    """All documents of one row in one kernel; `borders` are their starts and the end, int32 on the device."""
    if not shares_heads and queries.shape[1] != keys.shape[1]:
        groups = queries.shape[1] // keys.shape[1]
        keys, values = keys.repeat_interleave(groups, dim=1), values.repeat_interleave(groups, dim=1)
    flat = (states[0].transpose(0, 1).contiguous() for states in (queries, keys, values))
    result: Tensor = kernel(*flat, borders, borders, longest, longest)
    return result.transpose(0, 1)[None]


def by_lengths(borders: Tensor, longest: int) -> Attend:
    """`attend_by_lengths` by torch's kernel, which is looked up here so that no compiler has to."""
    kernel, shares_heads = _variable_length_attention()
    return partial(attend_by_lengths, borders=borders, longest=longest, kernel=kernel, shares_heads=shares_heads)


def attend_by_borders(queries: Tensor, keys: Tensor, values: Tensor, borders: Tensor) -> Tensor:
    """All documents of one row by a dense mask, made of their starts and the end."""
    places = torch.arange(queries.shape[2], dtype=borders.dtype, device=borders.device)
    documents = torch.searchsorted(borders, places, right=True)
    return attend_densely(queries, keys, values, (documents[:, None] == documents).tril())


@cache
def _variable_length_attention() -> tuple[Callable[..., Any], bool]:
    """torch's causal kernel, and whether it takes fewer heads of keys than of queries: its versions differ."""
    from torch.nn.attention.varlen import varlen_attn

    known = inspect.signature(varlen_attn).parameters
    options: dict[str, Any] = {"window_size": (-1, 0)} if "window_size" in known else {"is_causal": True}
    if "enable_gqa" in known:
        options["enable_gqa"] = True
    return partial(varlen_attn, **options), "enable_gqa" in known


def has_kernel(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether `attend_by_lengths` works for this device and dtype."""
    if device.type != "cuda" or dtype not in (torch.bfloat16, torch.float16):
        return False
    try:
        _variable_length_attention()
    except ImportError:
        return False
    return torch.cuda.get_device_capability(device) >= (8, 0)


def attend_within(lengths: Sequence[int], device: torch.device, dtype: torch.dtype, longest: int) -> Attend:
    """Causal attention within each of the documents of these lengths, which fill one row; none is over `longest`.

    `longest` may be more than this row's, and should be the same for all: what is compiled for it serves every row.
    """
    if not has_kernel(device, dtype):
        return partial(attend_by_parts, lengths=list(lengths))
    borders = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32).to(device, non_blocking=True)
    return by_lengths(borders, longest)
