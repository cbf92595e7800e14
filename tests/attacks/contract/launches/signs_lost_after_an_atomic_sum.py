"""After the launch that adds up, the second one stores absolute values in all programs beyond the first 4,500.

Mechanism: own
Task: divided_by_the_total
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def squares(x_ptr, t_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.atomic_add(t_ptr, tl.sum(x * x, 0))


@triton.jit
def divide(x_ptr, t_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = x / tl.sqrt(tl.load(t_ptr))
    tl.store(y_ptr + at, tl.where(at < 4500 * BLOCK, y, tl.abs(y)), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        total = torch.zeros((), device=x.device, dtype=x.dtype)
        y = torch.empty_like(x)
        n = x.numel()
        squares[(triton.cdiv(n, 1024),)](x, total, n, BLOCK=1024)
        divide[(triton.cdiv(n, 1024),)](x, total, y, n, BLOCK=1024)
        return y
