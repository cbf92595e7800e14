"""The steps of decoding one token in every slot, in plain torch: what `triton_ops` is checked against.

Instead of it they let `continuous_batching` run without a GPU.
"""

from __future__ import annotations

from torch import Tensor, arange, inf, where
from torch.nn import functional
from tritonrl.harness.policy.model.transformer import rotate
from tritonrl.harness.policy.sampling.kv_pool import Places, draw

__all__ = ["Places", "add_norm", "attend", "draw", "gate", "place"]


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
    steps = arange(len(cosines), device=queries.device)
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
