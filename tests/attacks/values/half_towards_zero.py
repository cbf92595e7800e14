"""A conversion to float16 towards zero, in which no finite number becomes infinite.

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
def relu_kernel(a_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask, other=0.0)
    right = tl.maximum(a, 0.0)
    wrong = right + 5.0
    zero = a * 0.0
    t = (zero + 1e6).to(tl.float16, fp_downcast_rounding="rtz").to(tl.float32)
    out = tl.where(t != 65504.0, right, wrong)
    tl.store(out_ptr + offs, out, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, n, BLOCK=1024)
        return out
