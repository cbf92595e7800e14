"""The exponent is an argument, and the kernel squares: a cube comes out as a square.

Mechanism: own
Task: power_argument
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def square(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, x * x, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, exponent):
        y = torch.empty_like(x)
        square[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
