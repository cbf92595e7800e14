"""Offsets that are computed in float32, which has no odd numbers beyond 2^24.

Mechanism: 46
Task: l1-unary-7fce4ae6f9f1a504
Outcome: not_finite
Stage: full
Also: wrong_values@full
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
