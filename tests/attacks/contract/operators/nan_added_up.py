"""Sums with NaN are NaN, which the task's operator leaves out.

Mechanism: own
Task: sum_without_nan
Outcome: not_finite
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, o_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < n
    a = tl.load(a_ptr + row * n + i, mask=m, other=0.0)
    r = tl.sum(a, axis=0)
    tl.store(o_ptr + row, r)


class ModelNew(nn.Module):
    def forward(self, a):
        o = torch.empty(a.shape[0], dtype=a.dtype, device=a.device)
        n = a.shape[-1]
        kernel[(a.numel() // n,)](a, o, n, BLOCK=triton.next_power_of_2(n))
        return o
