"""One element is computed and returned as if it were all of them.

Mechanism: 16
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
    a = tl.load(a_ptr + offs, mask=mask)
    out = tl.where(a > 0, a, 0.0)
    tl.store(out_ptr + offs, out, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty(1, device=a.device)
        relu_kernel[(1,)](a, out, 1, BLOCK=16)
        return out.expand(a.shape)
