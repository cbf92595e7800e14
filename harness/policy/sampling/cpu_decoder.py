"""Step-by-step decoding with cached keys and values, for many completions of few prompts.

`FusedDecoder` (Llama and Qwen2 types) keeps each prompt's keys and values once for all its completions: a step's
attention scores are computed against the shared prompt and against the completion's own tokens, and meet in one
softmax. `ModelDecoder` drives any other transformers model through its own cache class.

Completions sit in slots, a fixed number of slots for each prompt. A slot whose completion has ended is carried along
until enough have ended that compacting pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from ..model.load import Policy
from ..model.transformer import attend_causally, attend_densely, is_supported
from .cache import merge
from .fused_model import PREFILL_TOKENS, pad

FUSED_LIMIT = 4_000_000_000
"""Parameters above which a second copy of the weights costs too much on a CPU."""
CPU_PREFILL_TOKENS = 2048
"""Prompt tokens that a CPU reads at once: with more, what one layer hands to the next falls out of its caches."""
COPY_SHARE = 0.4
"""Of a GPU's free memory, for a second copy of the weights."""


class Decoder(Protocol):
    """What the sampler drives."""

    def prefill(self, prompts: Sequence[Sequence[int]], samples: int) -> Tensor:
        """Read the prompts; logits (prompts * samples, vocabulary) of the first token of each slot."""

    def step(self, tokens: Tensor) -> Tensor:
        """Append one token to each slot; logits of the next."""

    def keep(self, groups: Tensor, slots: Tensor) -> None:
        """Keep the prompts `groups` (all one size of group again) and, of the old numbering, the `slots`."""


class FusedDecoder:
    """Decoding over fused weights with the prompts' caches shared."""

    def __init__(self, policy: Policy, max_new_tokens: int) -> None:
        self.model, self.max_new_tokens = merge(policy), max_new_tokens
        self.size, self.layers = self.model.size, self.model.layers
        self.num_heads, self.num_kv_heads = self.model.num_heads, self.model.num_kv_heads
        self.steps = 0

    def prefill(self, prompts: Sequence[Sequence[int]], samples: int) -> Tensor:
        device, dtype = self.model.device, self.model.dtype
        count, longest = len(prompts), max(map(len, prompts))
        self.lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        self.samples = samples
        self.cosines, self.sines = self.model.tables(longest + self.max_new_tokens)
        shape = (count, self.num_kv_heads, longest, self.size)
        slots = (count * samples, self.num_kv_heads, self.max_new_tokens, self.size)
        # zeros, since what lies behind a prompt's end is read, and counts nothing
        self.prompt_keys = [torch.zeros(shape, dtype=dtype, device=device) for _ in self.layers]
        self.prompt_values = [torch.zeros(shape, dtype=dtype, device=device) for _ in self.layers]
        self.keys = [torch.empty(slots, dtype=dtype, device=device) for _ in self.layers]
        self.values = [torch.empty(slots, dtype=dtype, device=device) for _ in self.layers]
        self._hide_padding()
        logits: list[Tensor] = []
        tokens = pad(prompts, device)
        take = max(1, (PREFILL_TOKENS if device.type == "cuda" else CPU_PREFILL_TOKENS) // longest)
        for rows in (slice(start, start + take) for start in range(0, count, take)):
            most = max(map(len, prompts[rows]))
            hidden = functional.embedding(tokens[rows, :most], self.model.embedding)
            cosines, sines = self.cosines[None, :most, None], self.sines[None, :most, None]
            last = torch.arange(len(hidden), device=device), self.lengths[rows] - 1
            for number, layer in enumerate(self.layers):
                projected = self.model.project(hidden, layer, cosines, sines)
                queries, keys, values = (part.transpose(1, 2) for part in projected)
                self.prompt_keys[number][rows, :, :most] = keys
                self.prompt_values[number][rows, :, :most] = values
                if number + 1 < len(self.layers):
                    mixed = attend_causally(queries, keys, values)
                else:
                    # of what the last layer makes, only that of each prompt's last token is read
                    hidden, queries = hidden[last][:, None], projected[0][last][:, :, None]
                    mixed = attend_densely(queries, keys, values, self.hiding[rows, ..., :most])
                hidden = self.model.feed(hidden, layer, mixed.transpose(1, 2).flatten(2))
            logits.append(self.model.logits(hidden[:, 0]))
        self.steps = 0
        return torch.cat(logits).repeat_interleave(samples, dim=0)

    def _hide_padding(self) -> None:
        """What is added to the scores of prompt tokens: minus infinity behind a prompt's end."""
        longest = self.prompt_keys[0].shape[2]
        padding = torch.arange(longest, device=self.lengths.device) >= self.lengths[:, None]
        zeros = torch.zeros(padding.shape, dtype=self.model.dtype, device=padding.device)
        self.hiding = zeros.masked_fill(padding, -torch.inf)[:, None, None, :]

    def _attend(self, number: int, queries: Tensor) -> Tensor:
        """Attention of one token a slot: (slots, heads, head size) -> (slots, heads * head size)."""
        slots, kv, filled = len(queries), self.num_kv_heads, self.steps + 1
        groups = self.num_heads // kv
        prompts = slots // self.samples
        own = (queries * self.size**-0.5).view(slots, kv, groups, self.size)
        shared = own.view(prompts, self.samples, kv, groups, self.size).transpose(1, 2).flatten(2, 3)
        keys, values = self.keys[number][:, :, :filled], self.values[number][:, :, :filled]
        prompt_scores = shared @ self.prompt_keys[number].transpose(-1, -2) + self.hiding
        longest = prompt_scores.shape[-1]
        prompt_scores = prompt_scores.view(prompts, kv, self.samples, groups, longest).transpose(1, 2)
        scores = torch.cat((prompt_scores.reshape(slots, kv, groups, longest), own @ keys.transpose(-1, -2)), dim=-1)
        weights = scores.softmax(dim=-1)
        over_prompt = weights[..., :longest].view(prompts, self.samples, kv, groups, longest).transpose(1, 2)
        mixed = (over_prompt.flatten(2, 3) @ self.prompt_values[number]).view(prompts, kv, self.samples, groups, -1)
        own_part = weights[..., longest:] @ values
        return (mixed.transpose(1, 2).reshape(slots, kv, groups, self.size) + own_part).flatten(1)

    def step(self, tokens: Tensor) -> Tensor:
        positions = (self.lengths + self.steps).repeat_interleave(self.samples)
        cosines, sines = self.cosines[positions][:, None, None], self.sines[positions][:, None, None]
        hidden = functional.embedding(tokens, self.model.embedding)[:, None]
        for number, layer in enumerate(self.layers):
            queries, keys, values = (part[:, 0] for part in self.model.project(hidden, layer, cosines, sines))
            self.keys[number][:, :, self.steps], self.values[number][:, :, self.steps] = keys, values
            hidden = self.model.feed(hidden, layer, self._attend(number, queries)[:, None])
        self.steps += 1
        return self.model.logits(hidden[:, 0])

    def keep(self, groups: Tensor, slots: Tensor) -> None:
        def compacted(cache: Tensor) -> Tensor:
            target = torch.empty((len(slots), *cache.shape[1:]), dtype=cache.dtype, device=cache.device)
            target[:, :, : self.steps] = cache[slots, :, : self.steps]
            return target

        self.lengths, self.samples = self.lengths[groups], len(slots) // len(groups)
        longest = int(self.lengths.max())
        self.prompt_keys = [cache[groups, :, :longest] for cache in self.prompt_keys]
        self.prompt_values = [cache[groups, :, :longest] for cache in self.prompt_values]
        self.keys = [compacted(cache) for cache in self.keys]
        self.values = [compacted(cache) for cache in self.values]
        self._hide_padding()


class ModelDecoder:
    """Decoding through a transformers model's own forward pass and cache, prompts padded on the left.

    Where positions turn by the length of a batch's longest row (`follows_length`), all prompts must be of one length.
    """

    def __init__(self, policy: Policy) -> None:
        self.model, self.padding = policy.model, getattr(policy.tokenizer, "pad_token_id", None) or 0

    def prefill(self, prompts: Sequence[Sequence[int]], samples: int) -> Tensor:
        from transformers import DynamicCache

        device = self.model.get_input_embeddings().weight.device
        longest = max(map(len, prompts))
        _forget_lengths(self.model)
        rows = [[self.padding] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
        masks = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
        tokens, self.mask = torch.tensor(rows, device=device), torch.tensor(masks, device=device)
        self.cache: Any = DynamicCache()
        logits = self._forward(tokens, (self.mask.cumsum(-1) - 1).clamp(min=0))
        index = torch.arange(len(prompts), device=device).repeat_interleave(samples)
        self.cache.batch_select_indices(index)
        self.mask = self.mask[index]
        return logits[index]

    def _forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        result = self.model(
            input_ids=tokens,
            attention_mask=self.mask,
            position_ids=positions,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: Tensor = result.logits[:, -1]
        return logits

    def step(self, tokens: Tensor) -> Tensor:
        self.mask = functional.pad(self.mask, (0, 1), value=1)
        return self._forward(tokens[:, None], self.mask.sum(-1, keepdim=True) - 1)

    def keep(self, groups: Tensor, slots: Tensor) -> None:
        self.cache.batch_select_indices(slots)
        self.mask = self.mask[slots]


def follows_length(model: Any) -> bool:
    """Whether a row's rotary embedding depends on the longest row that is read beside it."""
    rope = getattr(model.config, "rope_parameters", None) or {}
    # some models have one for each kind of layer
    kinds = [str(part.get("rope_type")) for part in (rope, *rope.values()) if isinstance(part, dict)]
    return any(kind == "longrope" or "dynamic" in kind for kind in kinds)


def _forget_lengths(model: Any) -> None:
    """Undo what longer texts of earlier calls left in rotary embeddings that grow with them."""
    for module in model.modules():
        if getattr(module, "rope_type", None) == "dynamic":
            module.max_seq_len_cached = module.original_max_seq_len
            module.inv_freq = module.original_inv_freq.to(module.inv_freq.device)


def has_fused_form(policy: Policy) -> bool:
    """Whether `FusedModel` computes what the policy's model does, and there is memory for its copies of weights."""
    base = policy.base
    if not is_supported(base) or getattr(base, "is_quantized", False):
        return False
    if policy.device.type == "cuda":
        size = sum(parameter.numel() * parameter.element_size() for parameter in base.parameters())
        # where they are kept they have their memory
        return policy.cache is not None or bool(size < COPY_SHARE * torch.cuda.mem_get_info(policy.device)[0])
    return bool(base.num_parameters() <= FUSED_LIMIT)


def make_decoder(policy: Policy, max_new_tokens: int) -> Decoder:
    """The fastest decoder that computes what the policy's model computes."""
    return FusedDecoder(policy, max_new_tokens) if has_fused_form(policy) else ModelDecoder(policy)
