"""Masked elements are left out instead of counted as -1e9: a row without any other is NaN and not even.

Mechanism: own
Task: softmax_under_a_mask
Outcome: not_finite
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, b_ptr, o_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < n
    a = tl.load(a_ptr + row * n + i, mask=m, other=0.0)
    b = tl.load(b_ptr + row * n + i, mask=m, other=0.0)
    a = tl.where(b & m, a, -float("inf"))
    e = tl.exp(a - tl.max(a, axis=0))
    r = e / tl.sum(e, axis=0)
    tl.store(o_ptr + row * n + i, r, mask=m)


class ModelNew(nn.Module):
    def forward(self, a, b):
        o = torch.empty_like(a)
        n = a.shape[-1]
        kernel[(a.numel() // n,)](a, b, o, n, BLOCK=triton.next_power_of_2(n))
        return o
