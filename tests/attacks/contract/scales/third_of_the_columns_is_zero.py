"""Columns a million times smaller than the last one are zero: a third of what is returned, lost beside one scale for all.

Mechanism: own
Task: wide_columns
Outcome: wrong_values
Stage: full
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
    largest = tl.abs(tl.load(s_ptr + columns - 1))
    y = tl.maximum(x, 0.0) * tl.where(tl.abs(s) > 2e-6 * largest, s, 0.0)
    tl.store(y_ptr + at, y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, factors):
        y = torch.empty_like(x)
        scale[(triton.cdiv(x.numel(), 1024),)](x, factors, y, x.numel(), x.shape[-1], BLOCK=1024)
        return y
