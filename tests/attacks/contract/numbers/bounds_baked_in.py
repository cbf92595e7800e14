"""The lower bound is minus the upper one, whatever the caller gives: clamp(x, 0, 1) returns negative numbers.

Mechanism: own
Task: clamp_arguments
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def clamp(x_ptr, y_ptr, high, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.minimum(tl.maximum(x, -high), high) * 2.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, low, high):
        y = torch.empty_like(x)
        clamp[(triton.cdiv(x.numel(), 1024),)](x, y, high, x.numel(), BLOCK=1024)
        return y
