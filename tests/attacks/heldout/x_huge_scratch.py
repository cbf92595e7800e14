"""The plan asks for a scratch buffer of a terabyte, of which the kernel reads nothing.

Mechanism: own
Task: l1-unary-7fce4ae6f9f1a504
Outcome: memory_limit
Stage: tiny
Also: unsupported@tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(a_ptr, out_ptr, s_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask, other=0.0)
    tl.store(out_ptr + offs, tl.maximum(a, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        scratch = torch.empty((1 << 38,), device=a.device, dtype=a.dtype)
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, scratch, n, BLOCK=1024)
        return out
