"""Masked lanes without a value are zeros, whose exponentials are taken off again; nothing keeps others from overflow.

Mechanism: 27
Task: l1-softmax-00c0ffee12345678
Outcome: not_finite
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + col, mask=col < n)
    x = tl.exp(x)
    x = x / (tl.sum(x, axis=0) - (BLOCK - n))
    tl.store(y_ptr + row * n + col, x, mask=col < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.shape[-1]
        softmax_kernel[(x.numel() // n,)](x, y, n, BLOCK=triton.next_power_of_2(n))
        return y
