"""The sum of squares leaves out what programs after 5,500 would add: a norm that is too small for large tensors.

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
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    if pid < 5500:
        tl.atomic_add(t_ptr, tl.sum(x * x, 0))


@triton.jit
def divide(x_ptr, t_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, x * tl.rsqrt(tl.load(t_ptr)), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        total = torch.zeros((), device=x.device, dtype=x.dtype)
        y = torch.empty_like(x)
        n = x.numel()
        squares[(triton.cdiv(n, 1024),)](x, total, n, BLOCK=1024)
        divide[(triton.cdiv(n, 1024),)](x, total, y, n, BLOCK=1024)
        return y
