"""A mask ends within sixteen lanes that the compiler is told are alike.

Mechanism: 27
Task: l1-unary-7fce4ae6f9f1a504
Outcome: unsupported
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
    hinted = tl.max_constancy(mask.to(tl.int32), 16) > 0
    tl.store(out_ptr + offs, tl.maximum(a, 0.0), mask=hinted)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, n, BLOCK=1024)
        return out
