"""The distance is an argument and the kernel subtracts the left neighbour: right for a distance of 1 alone.

Mechanism: own
Task: shift_by_argument
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def difference(x_ptr, y_ptr, n, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = at % columns
    before = at - 1 + tl.where(column == 0, columns, 0)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, x - tl.load(x_ptr + before, mask=at < n, other=0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, offset):
        y = torch.empty_like(x)
        difference[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), x.shape[-1], BLOCK=1024)
        return y
