"""A Llama- or Qwen2-type model as decoding wants it: fused weights, LoRA merged into copies.

Query, key and value weights are one matrix, as are gate and up. Where a layer has a LoRA adapter, its delta is added
to a copy, so that the model's own weights never drift, and nothing has to be unmerged afterwards. The copies stay
where they are when another adapter is merged into them (`fill`), so that graphs captured over them stay valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from attrs import frozen
from torch import Tensor
from torch.nn import functional

from ..model.transformer import head_size, rotary_tables, rotate

PREFILL_TOKENS = 16_384
"""Tokens of a prefill batch; more only costs memory."""

Linear = tuple[Tensor, Tensor | None]
"""Weight and bias."""


@frozen(kw_only=True, eq=False)
class Layer:
    attention_norm: Tensor
    projections: Linear
    output: Linear
    feed_norm: Tensor
    gates: Linear
    down: Linear

    @property
    def fused(self) -> tuple[Linear, ...]:
        """The linear layers in the order of their use."""
        return self.projections, self.output, self.gates, self.down


def _merged(linear: Any) -> Linear:
    """Weight and bias of a linear layer with its LoRA delta added."""
    if hasattr(linear, "get_delta_weight"):
        base = linear.get_base_layer()
        weight = base.weight.detach()
        for name in linear.active_adapters:
            weight = weight + linear.get_delta_weight(name).detach().to(weight.dtype)
        return weight, base.bias
    return linear.weight.detach(), linear.bias


def _room_for(*linears: Any) -> Linear:
    """Empty weight and bias for several linear layers of one input, one below the other."""
    bases = [linear.get_base_layer() if hasattr(linear, "get_base_layer") else linear for linear in linears]
    weight, bias, rows = bases[0].weight, bases[0].bias, sum(len(base.weight) for base in bases)
    return weight.new_empty(rows, weight.shape[1]), None if bias is None else bias.new_empty(rows)


def _fill(target: Linear, *linears: Any) -> None:
    """Write the merged weights and biases of linear layers into `target`."""
    start = 0
    for linear in linears:
        merged = _merged(linear)
        end = start + len(merged[0])
        for whole, part in zip(target, merged, strict=True):
            if whole is not None and part is not None:
                whole[start:end] = part
        start = end


def pad(prompts: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Prompts as a matrix of tokens, padded on the right."""
    tokens = torch.zeros(len(prompts), max(map(len, prompts)), dtype=torch.long)
    for row, prompt in enumerate(prompts):
        tokens[row, : len(prompt)] = torch.tensor(prompt)
    return tokens.to(device)


def _place(weight: Tensor) -> tuple[torch.device, torch.dtype, torch.Size, int]:
    """Where a tensor is, and of what kind."""
    return weight.device, weight.dtype, weight.shape, weight.data_ptr()


def _linears(layer: Any) -> tuple[tuple[Any, ...], ...]:
    """The linear layers of a layer, those of one input together, in the order of their use."""
    attention, mlp = layer.self_attn, layer.mlp
    return (
        (attention.q_proj, attention.k_proj, attention.v_proj),
        (attention.o_proj,),
        (mlp.gate_proj, mlp.up_proj),
        (mlp.down_proj,),
    )


def _shared(model: Any) -> list[Tensor]:
    """The weights that are used where they are: head, embedding, and norms."""
    norms = [
        norm.weight for layer in model.model.layers for norm in (layer.input_layernorm, layer.post_attention_layernorm)
    ]
    weights = [model.get_output_embeddings().weight, model.model.embed_tokens.weight, model.model.norm.weight, *norms]
    return [weight.detach() for weight in weights]


class FusedModel:
    """Fused weights of a model of transformers, and the steps of its forward pass."""

    # ordinary tensors, also where inference is under way: they are written to in other calls
    @torch.inference_mode(False)
    @torch.no_grad()
    def __init__(self, model: Any) -> None:
        self.config = model.config
        self.size, self.epsilon = head_size(self.config), self.config.rms_norm_eps
        self.num_heads, self.num_kv_heads = self.config.num_attention_heads, self.config.num_key_value_heads
        self.shared = _shared(model)
        self.head, self.embedding, self.final_norm, *norms = self.shared
        self.layers = []
        for layer, before, between in zip(model.model.layers, norms[::2], norms[1::2], strict=True):
            projections, output, gates, down = (_room_for(*linears) for linears in _linears(layer))
            self.layers.append(
                Layer(
                    attention_norm=before,
                    projections=projections,
                    output=output,
                    feed_norm=between,
                    gates=gates,
                    down=down,
                )
            )
        self.fill(model)

    @torch.inference_mode(False)
    @torch.no_grad()
    def fill(self, model: Any) -> None:
        """Write the weights of `model`, which this was made of, with its present adapter merged."""
        for own, layer in zip(self.layers, model.model.layers, strict=True):
            for target, linears in zip(own.fused, _linears(layer), strict=True):
                _fill(target, *linears)

    def is_of(self, model: Any) -> bool:
        """Whether the weights that are used where they are, are those of `model`: it was neither moved nor replaced."""
        return [_place(weight) for weight in self.shared] == [_place(weight) for weight in _shared(model)]

    @property
    def num_bytes(self) -> int:
        tensors = [tensor for layer in self.layers for pair in layer.fused for tensor in pair if tensor is not None]
        return sum(tensor.nbytes for tensor in tensors)

    @property
    def device(self) -> torch.device:
        return self.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """What is computed with."""
        return self.embedding.dtype

    def tables(self, num_positions: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of shape (positions, head size)."""
        return rotary_tables(self.config, num_positions, self.device, self.dtype)

    def project(self, hidden: Tensor, layer: Layer, cosines: Tensor, sines: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries and keys, and values, each (rows, tokens, heads, head size)."""
        fused = functional.linear(self.norm(hidden, layer.attention_norm), *layer.projections)
        rows, length, _ = fused.shape
        heads = fused.view(rows, length, self.num_heads + 2 * self.num_kv_heads, self.size)
        turning = rotate(heads[:, :, : -self.num_kv_heads], cosines, sines)
        return turning[:, :, : self.num_heads], turning[:, :, self.num_heads :], heads[:, :, -self.num_kv_heads :]

    def feed(self, hidden: Tensor, layer: Layer, mixed: Tensor) -> Tensor:
        """The rest of a layer after attention."""
        hidden = hidden + functional.linear(mixed, *layer.output)
        gate, up = functional.linear(self.norm(hidden, layer.feed_norm), *layer.gates).chunk(2, dim=-1)
        return hidden + functional.linear(functional.silu(gate) * up, *layer.down)

    def norm(self, hidden: Tensor, weight: Tensor) -> Tensor:
        """Root mean square normalisation."""
        return functional.rms_norm(hidden, hidden.shape[-1:], weight, self.epsilon)

    def logits(self, hidden: Tensor) -> Tensor:
        return functional.linear(self.norm(hidden, self.final_norm), self.head)
