"""How tokens are drawn, in plain torch, and where a slot's sequence lies.

Keys and values of a layer lie in one pool of tokens, (tokens, heads, head size). A slot's sequence is two extents of
it: its prompt, which slots may share, and its own tokens. So prompts are stored once, slots can be renumbered without
moving anything, and whoever reads a sequence reads its length from the device and no more than that.

Tokens are drawn by inverting the cumulative distribution at uniforms of each completion's own stream. So a completion
depends on its seed alone, not on which others are in the batch, but for floating-point noise in the logits.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen
from torch import Tensor, searchsorted


@frozen(kw_only=True, eq=False)
class Places:
    """Where each slot's sequence is in the pool, the token of this step included; `most` bounds the lengths."""

    prompt_starts: Tensor
    prompt_lengths: Tensor
    own_starts: Tensor
    own_lengths: Tensor
    most: int


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
