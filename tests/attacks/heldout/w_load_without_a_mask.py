"""The last block is loaded beyond the end of the input, and only its store has a mask.

Mechanism: 27
Task: l1-unary-7fce4ae6f9f1a504
Outcome: out_of_bounds
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(a_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + offs)
    tl.store(out_ptr + offs, tl.where(a > 0, a, 0.0), mask=offs < n)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        relu_kernel[(triton.cdiv(n, 256),)](a, out, n, BLOCK=256)
        return out
