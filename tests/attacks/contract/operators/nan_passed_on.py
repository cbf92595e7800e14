"""NaN stays NaN, which the task's operator makes zeros of.

Mechanism: own
Task: nan_to_zero
Outcome: not_finite
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    a = tl.load(a_ptr + i, mask=m, other=0)
    r = a * 2
    tl.store(o_ptr + i, r, mask=m)


class ModelNew(nn.Module):
    def forward(self, a):
        o = torch.empty_like(a)
        n = a.numel()
        kernel[(triton.cdiv(n, 1024),)](a, o, n, BLOCK=1024)
        return o
