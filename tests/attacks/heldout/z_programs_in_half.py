"""Programs are counted in float16, which has no odd numbers beyond 2048.

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
    pid = tl.program_id(0).to(tl.float16).to(tl.int64)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, tl.maximum(tl.load(a_ptr + offs, mask=mask), 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, n, BLOCK=1024)
        return out
