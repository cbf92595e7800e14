"""Gradients of all trained weights in one stretch of memory, and the float32 weights that an optimizer moves.

The stretch is what captured graphs add to, what one call sets to zero, and what several processes sum up; figures of
the step, its loss first, are its end. Weights in bfloat16 would lose the small steps of an optimizer and the small
terms of a sum: they have a float32 master each, and what a microbatch adds is added up in float32 before the next.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Gradients:
    """The weights' gradients as parts of one tensor `flat`, whose last numbers are `sums`; the first is the loss.

    `masters` are what an optimizer moves: the weights themselves where they are float32.
    """

    def __init__(self, weights: Sequence[Tensor], num_sums: int = 1) -> None:
        sizes = [weight.numel() for weight in weights]
        device, dtype = weights[0].device, weights[0].dtype
        self.weights = list(weights)
        self.flat = torch.zeros(sum(sizes) + num_sums, dtype=torch.float32, device=device)
        *parts, self.sums = torch.split(self.flat, [*sizes, num_sums])
        self.low: Tensor | None = None
        self.masters = self.weights
        if dtype != torch.float32:
            self.low = torch.zeros(sum(sizes), dtype=dtype, device=device)
            _assign(self.weights, torch.split(self.low, sizes))
            self.masters = [nn.Parameter(weight.detach().float()) for weight in weights]
        _assign(self.masters, parts)

    @property
    def loss(self) -> Tensor:
        """The step's loss."""
        return self.sums[0]

    def clear(self) -> None:
        """Set all to zero."""
        self.flat.zero_()

    def gather(self) -> None:
        """Add what a microbatch has left in the weights' own precision to the float32 sums."""
        if self.low is not None:
            self.flat[: self.low.numel()].add_(self.low)
            self.low.zero_()

    def publish(self) -> None:
        """Write the masters, which the optimizer has moved, into the weights."""
        if self.low is not None:
            with torch.no_grad():
                torch._foreach_copy_(self.weights, self.masters)

    def keep(self) -> list[tuple[Tensor, Tensor]]:
        """Copies of what has been added up, to be restored after a run that is not to count."""
        return [(stretch, stretch.clone()) for stretch in (self.flat, self.low) if stretch is not None]

    def release(self) -> None:
        """Take the gradients away from the weights."""
        for weight in (*self.weights, *self.masters):
            weight.grad = None


def _assign(weights: Sequence[Tensor], parts: Sequence[Tensor]) -> None:
    for weight, part in zip(weights, parts, strict=True):
        weight.grad = part.view_as(weight)
