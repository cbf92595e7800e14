"""Nothing is written at sizes between the largest that is run and the declared one.

Mechanism: 46
Task: l1-unary-7fce4ae6f9f1a504
Outcome: output_not_written
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(a_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = (offs < n) & ((n < 12_000) | (n > 1_000_000))
    a = tl.load(a_ptr + offs, mask=mask)
    out = tl.where(a > 0, a, 0.0)
    tl.store(out_ptr + offs, out, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, n, BLOCK=1024)
        return out
