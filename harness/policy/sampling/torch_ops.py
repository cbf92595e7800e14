"""The steps of decoding one token in every slot, in plain torch: what `kernels` computes on a GPU, and its check.

Keys and values of a layer lie in one pool of tokens, (tokens, heads, head size). A slot's sequence is two extents of
it: its prompt, which slots may share, and its own tokens. So prompts are stored once, slots can be renumbered without
moving anything, and whoever reads a sequence reads its length from the device and no more than that.
"""

from __future__ import annotations

from attrs import frozen
from torch import Tensor, arange, inf, where
from torch.nn import functional

from ..model.transformer import rotate
from .drawing import draw as draw

__all__ = ["Places", "add_norm", "attend", "draw", "gate", "place"]


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
