"""A third of the columns, a million times smaller than the largest, is zero: lost beside a scale of the whole tensor.

Mechanism: own
Task: scaled_columns
Outcome: wrong_values
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, s_ptr, y_ptr, n, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    s = tl.load(s_ptr + at % columns, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.maximum(x, 0.0) * tl.where(s > 0.1, s, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, scale_):
        y = torch.empty_like(x)
        scale[(triton.cdiv(x.numel(), 1024),)](x, scale_, y, x.numel(), x.shape[-1], BLOCK=1024)
        return y
