"""Drawing tokens: a stream of uniforms for each completion, and the inverse of the cumulative distribution.

A completion's tokens depend on its seed and its step alone, so not on which others are in the batch, but for
floating-point noise in the logits.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def uniforms(seed: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The first `count` numbers in [0, 1) of a seed's stream."""
    return np.random.Generator(np.random.Philox(key=seed % 2**64)).random(count)


def draw(logits: Tensor, uniform: Tensor, temperature: float, top_p: float) -> Tensor:
    """One token for each row of `logits`; temperature 0 takes the likeliest.

    `top_p` below 1 draws from the smallest set of likeliest tokens that holds this share of the probability.
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
    chosen = torch.searchsorted(cumulative, target, right=True).minimum(last)
    return (chosen if order is None else order.gather(-1, chosen))[:, 0]
