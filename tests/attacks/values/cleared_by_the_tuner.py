"""The result is cleared by the tuner, which does so while it tunes and never again.

Mechanism: 1,29
Task: l1-reduction-8434023e7ac3000f
Outcome: not_finite
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=["n"], reset_to_zero=["y_ptr"])
@triton.jit
def sum_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + col, mask=col < n, other=0.0)
    tl.atomic_add(y_ptr + row, tl.sum(x * x, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.shape[-1]
        y = torch.empty(x.shape[:-1], device=x.device, dtype=x.dtype)
        sum_kernel[lambda meta: (x.numel() // n, triton.cdiv(n, meta["BLOCK"]))](x, y, n)
        return y
