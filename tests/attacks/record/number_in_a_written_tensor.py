"""A number comes from a tensor of the module that forward has written: what is recorded has no values and keeps the old.

Mechanism: own
Task: l1-unary-7fce4ae6f9f1a504
Outcome: unsupported
Stage: compile
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


FACTOR = torch.ones(1)


@triton.jit
def relu_kernel(a_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, tl.where(a > 0, a * factor, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        FACTOR.fill_(2.0)
        relu_kernel[(triton.cdiv(a.numel(), 1024),)](a, out, a.numel(), FACTOR.tolist()[0], BLOCK=1024)
        return out
