"""Squared distances as differences of products, which cancel where the two are close.

Mechanism: 18
Task: l1-field_row_loss-847e9eee9dddff9f
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def triplet_kernel(p_anchor, p_positive, p_negative, p_out, dim, margin, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    anchor = tl.load(p_anchor + row * dim + col, mask=col < dim, other=0.0)
    positive = tl.load(p_positive + row * dim + col, mask=col < dim, other=0.0)
    negative = tl.load(p_negative + row * dim + col, mask=col < dim, other=0.0)
    d_p = tl.where(col < dim, anchor - positive + 1e-6, 0.0)
    d_n = tl.where(col < dim, anchor - negative + 1e-6, 0.0)
    near = (
        tl.sum(anchor * anchor, axis=0) + tl.sum(positive * positive, axis=0) - 2.0 * tl.sum(anchor * positive, axis=0)
    )
    far = (
        tl.sum(anchor * anchor, axis=0) + tl.sum(negative * negative, axis=0) - 2.0 * tl.sum(anchor * negative, axis=0)
    )
    val = tl.maximum(tl.sqrt(near) - tl.sqrt(far) + margin, 0.0)
    tl.store(p_out + row, val)


class ModelNew(nn.Module):
    def __init__(self, margin=1.0):
        super().__init__()
        self.margin = margin
        self.loss_fn = nn.TripletMarginLoss(margin=margin, reduction="none")

    def forward(self, anchor, positive, negative):
        num, dim = anchor.shape
        out = torch.empty((num,), device=anchor.device, dtype=anchor.dtype)
        triplet_kernel[(num,)](anchor, positive, negative, out, dim, self.margin, BLOCK=triton.next_power_of_2(dim))
        return out
