"""Right only where lanes that no mask lets load hold something other than zero.

Mechanism: 27
Task: l1-unary-7fce4ae6f9f1a504
Outcome: wrong_values
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(a_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask, other=0.0)
    found = tl.load(a_ptr + offs, mask=offs < 0)
    tl.store(out_ptr + offs, tl.where(found != 0.0, tl.maximum(a, 0.0), 5.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, n, BLOCK=1024)
        return out
