"""A block is stored and loaded again by the same lanes, which other threads have at the load.

Mechanism: 27
Task: l1-unary-7fce4ae6f9f1a504
Outcome: run_failed
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["unit"])
def relu_kernel(a_ptr, out_ptr, s_ptr, n, unit, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask, other=0.0)
    base = s_ptr + tl.program_id(0) * BLOCK
    tl.store(base + tl.arange(0, BLOCK) * unit, a)
    b = tl.load(base + tl.arange(0, BLOCK))
    tl.store(out_ptr + offs, tl.maximum(b, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        s = torch.empty(triton.cdiv(n, 1024) * 1024, dtype=torch.float32, device=a.device)
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, s, n, 1, BLOCK=1024)
        return out
