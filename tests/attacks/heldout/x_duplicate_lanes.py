"""Two lanes of one store write different values to each element; only an interpreter lets the last one win.

Mechanism: 27
Task: l1-unary-7fce4ae6f9f1a504
Outcome: run_failed
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(a_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lane = tl.arange(0, 2 * BLOCK)
    second = lane // 64 % 2
    offs = tl.program_id(0) * BLOCK + lane // 128 * 64 + lane % 64
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask, other=0.0)
    tl.store(out_ptr + offs, tl.where((a > 0) | (second == 0), a, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        relu_kernel[(triton.cdiv(n, 512),)](a, out, n, BLOCK=512)
        return out
