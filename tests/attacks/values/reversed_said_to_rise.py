"""The offsets of a block fall, and the compiler is told that they rise.

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
    back = (BLOCK - 1 - tl.arange(0, BLOCK)) + tl.program_id(0) * BLOCK
    back = tl.max_contiguous(tl.multiple_of(back, 16), 16)
    b = tl.load(a_ptr + back, mask=back < n, other=0.0)
    tl.store(out_ptr + back, tl.maximum(b, 0.0), mask=back < n)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, n, BLOCK=1024)
        return out
