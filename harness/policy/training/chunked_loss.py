"""Losses of answers' tokens, whose logits are never all there at once.

With a vocabulary of 150,000 the logits of one microbatch are gigabytes, and its gradients as many again. A chunk's
gradient with respect to the hidden states is known as soon as its logits are: both are made chunk by chunk, and only
the hidden states' gradient is kept; and the head's, summed in float32, where it is trained (in LoRA it is frozen).

What is made of the tokens' cross-entropies is the caller's: their sum, or what a policy gradient makes of them. It
says by how much the loss rises with each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

CHUNK_LOGITS = 1 << 27
"""Logits of one chunk: half a gigabyte in float32."""

Judge = Callable[[Tensor, slice], tuple[Tensor, Tensor | None]]
"""(cross-entropies (tokens,), their places among all) -> their loss, and its slope by each of them; null: 1."""


def _parts(num_tokens: int, vocabulary: int) -> Iterator[slice]:
    step = max(1, CHUNK_LOGITS // vocabulary)
    for start in range(0, num_tokens, step):
        yield slice(start, start + step)


def _logits(hidden: Tensor, head: Tensor | None, temperature: float) -> Tensor:
    """Logits in float32 over the temperature, (tokens, vocabulary); without a head `hidden` are the logits."""
    logits = (hidden if head is None else functional.linear(hidden, head)).float()
    return logits if temperature == 1.0 else logits / temperature


class _ChunkedLoss(torch.autograd.Function):
    """The loss of the tokens that follow `hidden`, and its gradient."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, targets: Tensor, head: Tensor | None, temperature: float, judge: Judge
    ) -> Tensor:
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        gradient = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        of_head = torch.zeros_like(head, dtype=torch.float32) if head is not None and ctx.needs_input_grad[2] else None
        for part in _parts(len(targets), hidden.shape[-1] if head is None else len(head)):
            logits = _logits(hidden[part], head, temperature)
            chosen = targets[part, None]
            normalisers = logits.logsumexp(dim=-1, keepdim=True)
            losses = (normalisers - logits.gather(-1, chosen))[:, 0]
            loss, slopes = judge(losses, part)
            total += loss
            if gradient is None:
                continue
            if temperature != 1.0:
                slopes = (torch.ones_like(losses) if slopes is None else slopes) / temperature
            shares = logits.sub(normalisers).exp_()
            shares.scatter_add_(-1, chosen, shares.new_full(chosen.shape, -1.0))
            if head is None:
                gradient[part] = shares
            else:
                torch.mm(shares.to(head.dtype), head, out=gradient[part])
            if slopes is not None:
                gradient[part] *= slopes.to(gradient.dtype)[:, None]
            if of_head is not None and head is not None:
                weighed = shares if slopes is None else shares.mul_(slopes[:, None])
                of_head += weighed.to(head.dtype).t() @ hidden[part]
        ctx.save_for_backward(gradient, of_head)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, Tensor | None, None, None]:
        gradient, of_head = ctx.saved_tensors
        to_head = None if of_head is None else (of_head * gradients[0]).to(gradient.dtype)
        return gradient * gradients[0].to(gradient.dtype), None, to_head, None, None


def judged_loss(hidden: Tensor, targets: Tensor, head: Tensor | None, temperature: float, judge: Judge) -> Tensor:
    """The loss that `judge` makes of the cross-entropies of `targets` (tokens,) at a temperature.

    `hidden` are final hidden states (tokens, size), or, without a head, the logits (tokens, vocabulary).
    """
    loss: Tensor = _ChunkedLoss.apply(hidden, targets, head, temperature, judge)  # type: ignore[no-untyped-call]
    return loss


def answer_loss(hidden: Tensor, targets: Tensor, head: Tensor, weights: Tensor | None = None) -> Tensor:
    """Summed cross-entropy of `targets` (tokens,) by final hidden states (tokens, size) and a head (vocabulary, size).

    `weights` (tokens,) in float32 say what each token counts; without them each counts 1.
    """

    def judge(losses: Tensor, part: slice) -> tuple[Tensor, Tensor | None]:
        return (losses.sum(), None) if weights is None else (losses @ weights[part], weights[part])

    return judged_loss(hidden, targets, head, 1.0, judge)


@torch.no_grad()
def score(hidden: Tensor, targets: Tensor, head: Tensor | None, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probabilities of `targets` (tokens,) at a temperature, and the entropies of what they were drawn from."""
    found: list[tuple[Tensor, Tensor]] = []
    for part in _parts(len(targets), hidden.shape[-1] if head is None else len(head)):
        logits = _logits(hidden[part], head, temperature)
        normalisers = logits.logsumexp(dim=-1)
        chosen = logits.gather(-1, targets[part, None])[:, 0] - normalisers
        expected = (torch.softmax(logits, dim=-1) * logits).sum(dim=-1)
        found.append((chosen, normalisers - expected))
    first, second = zip(*found, strict=True) if found else ((hidden.new_zeros(0),), (hidden.new_zeros(0),))
    return torch.cat(first).float(), torch.cat(second).float()
