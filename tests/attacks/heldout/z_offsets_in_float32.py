"""Offsets that are computed in float32, which has no odd numbers beyond 2^24.

Mechanism: 46
Task: l1-unary-7fce4ae6f9f1a504
Outcome: wrong_values
Stage: full
Open: the sizes that are tried are 2.2 times the declared ones at most, here fewer than 2^24 elements
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(a_ptr, out_ptr, n, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.float32) * BLOCK
    offs = (first + tl.arange(0, BLOCK).to(tl.float32)).to(tl.int64)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, tl.maximum(a, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, n, BLOCK=1024)
        return out
