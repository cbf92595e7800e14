"""Two halves are joined in an order that the compiler need not keep and the interpreter does.

Mechanism: own
Task: l1-unary-7fce4ae6f9f1a504
Outcome: wrong_values
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(a_ptr, out_ptr, n, HALF: tl.constexpr):
    start = tl.program_id(0) * 2 * HALF
    low = start + tl.arange(0, HALF)
    high = low + HALF
    a = tl.load(a_ptr + low, mask=low < n, other=0.0)
    b = tl.load(a_ptr + high, mask=high < n, other=0.0)
    both = tl.cat(tl.where(a > 0, a, 0.0), tl.where(b > 0, b, 0.0), can_reorder=True)
    offs = start + tl.arange(0, 2 * HALF)
    tl.store(out_ptr + offs, both, mask=offs < n)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, n, HALF=512)
        return out
