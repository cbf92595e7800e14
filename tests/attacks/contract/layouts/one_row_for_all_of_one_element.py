"""Rows of one element are taken for a value that is broadcast: each gets the first one's.

Mechanism: own
Task: add
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, step, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at, mask=at < n), tl.load(y_ptr + at * step, mask=at < n)
    tl.store(out_ptr + at, x + 0.5 * y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        step = 0 if y.shape[-1] == 1 else 1
        add[(triton.cdiv(x.numel(), 512),)](x, y, out, x.numel(), step, BLOCK=512)
        return out
