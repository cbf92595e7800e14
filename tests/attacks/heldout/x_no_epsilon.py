"""RMS norm without its epsilon: rows near zero are scaled up instead of fading, and a row of zeros is NaN.

Mechanism: 41
Task: l1-rms_norm-b324d42ec1f8bcff
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(x_ptr, y_ptr, w_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    mask = col < n
    x = tl.load(x_ptr + row * n + col, mask=mask, other=0.0)
    y = x / tl.sqrt(tl.sum(x * x, axis=0) / n)
    tl.store(y_ptr + row * n + col, y * tl.load(w_ptr + col, mask=mask, other=0.0), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.RMSNorm(dim, eps=1e-06)

    def forward(self, x):
        n = x.shape[-1]
        y = torch.empty_like(x)
        rms_norm_kernel[(x.numel() // n,)](x, y, self.norm.weight, n, BLOCK=triton.next_power_of_2(n))
        return y
