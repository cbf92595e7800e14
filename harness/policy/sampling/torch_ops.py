"""The steps of decoding one token in every slot, in plain torch: what `triton_ops` computes on a GPU, and its check.

Keys and values of a layer lie in one pool of tokens, (tokens, heads, head size). A slot's sequence is two extents of
it: its prompt, which slots may share, and its own tokens. So prompts are stored once, slots can be renumbered without
moving anything, and whoever reads a sequence reads its length from the device and no more than that.

Tokens are drawn by inverting the cumulative distribution at uniforms of each completion's own stream. So a completion
depends on its seed alone, not on which others are in the batch, but for floating-point noise in the logits.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen
from torch import Tensor, arange, inf, searchsorted, where
from torch.nn import functional

from ..model.transformer import rotate


@frozen(kw_only=True, eq=False)
class Places:
    """Where each slot's sequence is in the pool, the token of this step included; `most` bounds the lengths."""

    prompt_starts: Tensor
    prompt_lengths: Tensor
    own_starts: Tensor
    own_lengths: Tensor
    most: int


def add_norm(hidden: Tensor, added: Tensor | None, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """`hidden + added`, and its root mean square normalisation."""
    hidden = hidden if added is None else hidden + added
    return hidden, functional.rms_norm(hidden, hidden.shape[-1:], weight, epsilon)


def place(
    fused: Tensor, keys: Tensor, values: Tensor, places: Places, cosines: Tensor, sines: Tensor, num_heads: int
) -> Tensor:
    """Put the rotated key and the value of each slot's token in the pool; the rotated queries (slots, heads, size)."""
    num_kv_heads, size = keys.shape[1:]
    heads = fused.view(len(fused), -1, size)
    positions = places.prompt_lengths + places.own_lengths - 1
    turned: Tensor = rotate(heads[:, :-num_kv_heads], cosines[positions][:, None], sines[positions][:, None])
    targets = places.own_starts + places.own_lengths - 1
    keys[targets], values[targets] = turned[:, num_heads:], heads[:, -num_kv_heads:]
    queries: Tensor = turned[:, :num_heads].contiguous()
    return queries


def attend(
    fused: Tensor, keys: Tensor, values: Tensor, places: Places, cosines: Tensor, sines: Tensor, num_heads: int
) -> Tensor:
    """`place`, and attention of each slot's token to its sequence: (slots, heads * size)."""
    queries = place(fused, keys, values, places, cosines, sines, num_heads)
    slots, _, size = queries.shape
    steps = arange(places.most, device=queries.device)
    prompts, owns = places.prompt_lengths[:, None], places.own_lengths[:, None]
    index = where(
        steps < prompts, places.prompt_starts[:, None] + steps, places.own_starts[:, None] + steps - prompts
    ).clamp(max=len(keys) - 1)
    grouped = queries.view(slots, keys.shape[1], -1, size) * size**-0.5
    scores = grouped @ keys[index].permute(0, 2, 3, 1)
    behind = steps >= prompts + owns
    scores = scores.masked_fill(behind[:, None, None], -inf)
    # what was never written may be NaN
    held = values[index].masked_fill(behind[:, :, None, None], 0.0)
    mixed: Tensor = scores.softmax(dim=-1) @ held.transpose(1, 2)
    return mixed.flatten(1)


def gate(gates: Tensor) -> Tensor:
    """The gated half of a feed-forward layer."""
    first, second = gates.chunk(2, dim=-1)
    return functional.silu(first) * second


def uniforms(seed: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Returns the first `count` numbers in [0, 1) of a seed's stream: (count,)."""
    return np.random.Generator(np.random.Philox(key=seed % 2**64)).random(count)


def draw(logits: Tensor, uniform: Tensor, temperature: float, top_p: float) -> Tensor:
    """Draw one token for each row of `logits`: (rows, vocabulary) and uniforms (rows,) to (rows,).

    Temperature 0 takes the likeliest. `top_p` below 1 draws from the smallest set of likeliest tokens that holds this
    share of the probability.
    """
    if temperature == 0.0:
        return logits.argmax(dim=-1)
    probabilities = (logits.float() / temperature).softmax(dim=-1)
    order = None
    if top_p < 1.0:
        probabilities, order = probabilities.sort(dim=-1, descending=True, stable=True)
        before = probabilities.cumsum(dim=-1) - probabilities
        probabilities = probabilities.masked_fill(before >= top_p, 0.0)
    cumulative = probabilities.cumsum(dim=-1)
    target = uniform.to(cumulative.dtype)[:, None] * cumulative[:, -1:]
    # the last token with any probability bounds the search: rounding must not select one without
    last = (cumulative < cumulative[:, -1:]).sum(dim=-1, keepdim=True)
    chosen = searchsorted(cumulative, target, right=True).minimum(last)
    return (chosen if order is None else order.gather(-1, chosen))[:, 0]
