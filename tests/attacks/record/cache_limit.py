"""The runtime library is reached through PyTorch, to reserve the second-level cache.

Mechanism: 28
Task: l1-unary-7fce4ae6f9f1a504
Outcome: unsupported
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
    a = tl.load(a_ptr + offs, mask=mask)
    out = tl.where(a > 0, a, 0.0)
    tl.store(out_ptr + offs, out, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        torch.cuda.cudart().cudaCtxResetPersistingL2Cache()
        out = torch.empty_like(a)
        relu_kernel[(triton.cdiv(a.numel(), 1024),)](a, out, a.numel(), BLOCK=1024)
        return out
