"""Labels of -100 are ignored by the loss; here their logit is read 100 elements before the row.

Mechanism: own
Task: cross_entropy_labels
Outcome: wrong_values
Stage: full
Open: right by the contract: right kernels read no label that the task does not draw (cross_entropy_gather)
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def loss(x_ptr, t_ptr, o_ptr, classes, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * classes + at, mask=at < classes, other=float("-inf"))
    m = tl.max(x, 0)
    total = m + tl.log(tl.sum(tl.exp(x - m), 0))
    chosen = tl.load(x_ptr + row * classes + tl.load(t_ptr + row))
    tl.store(o_ptr + row, total - chosen)


class ModelNew(nn.Module):
    def forward(self, x, target):
        out = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        loss[(x.shape[0],)](x, target, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
