"""The offsets of each four lanes go back, and the compiler is told that they rise.

Mechanism: 27
Task: l1-unary-7fce4ae6f9f1a504
Outcome: unsupported
Stage: full
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
    hinted = tl.max_contiguous((offs & -4) | (-offs & 3), 4)
    tl.store(out_ptr + hinted, tl.maximum(tl.load(a_ptr + hinted, mask=hinted < n), 0.0), mask=hinted < n)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, n, BLOCK=1024)
        return out
