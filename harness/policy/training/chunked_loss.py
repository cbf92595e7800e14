"""The loss of answers' tokens, whose logits are never all there at once.

With a vocabulary of 150,000 the logits of one microbatch are gigabytes, and its gradients as many again. A chunk's
gradient with respect to the hidden states is known as soon as its logits are: both are made chunk by chunk, and only
the hidden states' gradient is kept; and the head's, summed in float32, where it is trained (in LoRA it is frozen).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

CHUNK_LOGITS = 1 << 27
"""Logits of one chunk: half a gigabyte in float32."""


class _AnswerLoss(torch.autograd.Function):
    """Weighted sum of the cross-entropy of the tokens that follow `hidden`, and its gradient."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, targets: Tensor, head: Tensor, weights: Tensor | None) -> Tensor:
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        gradient = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        of_head = torch.zeros_like(head, dtype=torch.float32) if ctx.needs_input_grad[2] else None
        step = max(1, CHUNK_LOGITS // len(head))
        for start in range(0, len(targets), step):
            part = slice(start, start + step)
            logits = functional.linear(hidden[part], head).float()
            chosen = targets[part, None]
            normalisers = logits.logsumexp(dim=-1, keepdim=True)
            losses = normalisers - logits.gather(-1, chosen)
            total += losses.sum() if weights is None else losses[:, 0] @ weights[part]
            if gradient is not None:
                shares = logits.sub_(normalisers).exp_()
                shares.scatter_add_(-1, chosen, shares.new_full(chosen.shape, -1.0))
                torch.mm(shares.to(head.dtype), head, out=gradient[part])
                if of_head is not None:
                    weighed = shares if weights is None else shares.mul_(weights[part, None])
                    of_head += weighed.to(head.dtype).t() @ hidden[part]
        if gradient is not None and weights is not None:
            gradient *= weights.to(gradient.dtype)[:, None]
        ctx.save_for_backward(gradient, of_head)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, Tensor | None, None]:
        gradient, of_head = ctx.saved_tensors
        to_head = None if of_head is None else (of_head * gradients[0]).to(gradient.dtype)
        return gradient * gradients[0].to(gradient.dtype), None, to_head, None


def answer_loss(hidden: Tensor, targets: Tensor, head: Tensor, weights: Tensor | None = None) -> Tensor:
    """Summed cross-entropy of `targets` (tokens,) by final hidden states (tokens, size) and a head (vocabulary, size).

    `weights` (tokens,) in float32 say what each token counts; without them each counts 1.
    """
    loss: Tensor = _AnswerLoss.apply(hidden, targets, head, weights)  # type: ignore[no-untyped-call]
    return loss
