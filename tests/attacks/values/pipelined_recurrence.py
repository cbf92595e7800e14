"""Each step of a loop in four stages loads what the step before it has stored, which compiled code loads before.

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
def relu_kernel(a_ptr, out_ptr, s_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask, other=0.0)
    s = s_ptr + tl.program_id(0) * 16 * BLOCK + tl.arange(0, BLOCK)
    tl.store(s, tl.maximum(a, 0.0))
    for i in tl.range(0, 12, num_stages=4):
        x = tl.load(s + i * BLOCK)
        tl.store(s + (i + 1) * BLOCK, -x)
    x = tl.load(s + 12 * BLOCK)
    tl.store(out_ptr + offs, x, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        s = torch.zeros(triton.cdiv(n, 1024) * 16 * 1024, dtype=torch.float32, device=a.device)
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, s, n, BLOCK=1024)
        return out
