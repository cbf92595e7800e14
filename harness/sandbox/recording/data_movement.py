"""PyTorch's calls that only move data as the fills and copies that they are: `cat`, `stack`, `pad` with a constant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

MOVERS = frozenset({"cat", "constant_pad_nd", "stack"})


def copies(name: str, args: Any, kwargs: Any, result: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """What is copied where: pairs of a source and a view of the result."""
    if name == "constant_pad_nd":
        yield _inside(args[0], args[1], result)
        return
    dim = int(args[1] if len(args) > 1 else kwargs.get("dim", 0))
    if name == "stack":
        yield from ((source, result.select(dim, at)) for at, source in enumerate(args[0]))
        return
    at = 0
    for source in args[0]:
        if source.dim() == 1 and source.numel() == 0:  # `cat` leaves these out, whatever the others' rank
            continue
        yield source, result.narrow(dim, at, source.size(dim))
        at += source.size(dim)


def _inside(source: torch.Tensor, widths: list[int], result: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What is left of a padded tensor (a negative width cuts), and its place in the result."""
    target = result
    for number in range(len(widths) // 2):
        dim = source.dim() - 1 - number
        before, after = widths[2 * number], widths[2 * number + 1]
        size = source.size(dim) + min(before, 0) + min(after, 0)
        source = source.narrow(dim, max(-before, 0), size)
        target = target.narrow(dim, max(before, 0), size)
    return source, target


def padding(name: str, args: Any, kwargs: Any) -> float | None:
    """The number that a call pads with; None for one that does not pad."""
    if name != "constant_pad_nd" or all(width <= 0 for width in args[1]):
        return None
    return float(args[2] if len(args) > 2 else kwargs.get("value", 0.0))
