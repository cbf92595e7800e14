"""Programs add to one element without atomics: right one after another, wrong side by side.

Mechanism: 27
Task: l1-reduction-8434023e7ac3000f
Outcome: run_failed
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + col, mask=col < n, other=0.0)
    tl.store(y_ptr + row, tl.load(y_ptr + row) + tl.sum(x * x, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.shape[-1]
        y = torch.zeros(x.shape[:-1], device=x.device, dtype=x.dtype)
        sum_kernel[(x.numel() // n, triton.cdiv(n, 64))](x, y, n, BLOCK=64)
        return y
