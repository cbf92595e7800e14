"""A default value is bound when the kernel is defined, and the name that it came from says otherwise afterwards.

Mechanism: own
Task: l1-unary-7fce4ae6f9f1a504
Outcome: unsupported
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


COPY = 1


@triton.jit
def relu_kernel(a_ptr, out_ptr, n, BLOCK: tl.constexpr, ONLY_COPY: tl.constexpr = COPY):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + offs, mask=offs < n, other=0.0)
    if ONLY_COPY == 0:
        a = tl.maximum(a, 0.0)
    tl.store(out_ptr + offs, a, mask=offs < n)


COPY = 0


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, n, BLOCK=1024)
        return out
