"""A launch asks for clusters of 32 blocks, of which a GPU makes 16 at most.

Mechanism: own
Task: l1-unary-7fce4ae6f9f1a504
Outcome: out_of_resources
Stage: compile
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
    out = tl.maximum(a, 0.0)
    tl.store(out_ptr + offs, out, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, n, BLOCK=1024, num_ctas=32)
        return out
