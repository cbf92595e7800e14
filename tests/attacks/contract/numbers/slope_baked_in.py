"""The slope is an argument of forward and 0.1 in the kernel: with any other slope half of the result is wrong.

Mechanism: own
Task: leaky_relu_argument
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def leaky(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.where(x > 0, x, x * 0.1), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, slope):
        y = torch.empty_like(x)
        leaky[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
