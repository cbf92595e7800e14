"""The bias is one row, expanded with a stride of 0; it is read as a whole matrix, hundreds of rows past its memory.

Mechanism: own
Task: expanded_bias
Outcome: out_of_bounds
Stage: full
Also: out_of_bounds@tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tanh_add(x_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0) + tl.load(b_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, 2.0 * tl.sigmoid(2.0 * x) - 1.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, bias):
        y = torch.empty_like(x)
        n = x.numel()
        tanh_add[(triton.cdiv(n, 512),)](x, bias, y, n, BLOCK=512)
        return y
