"""Every second element is summed, and the sum doubled.

Mechanism: 18
Task: l1-reduction-8434023e7ac3000f
Outcome: wrong_values
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK) * 2
    x = tl.load(x_ptr + row * n + col, mask=col < n, other=0.0)
    tl.store(y_ptr + row, 2.0 * tl.sum(x * x, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.shape[-1]
        y = torch.empty(x.shape[:-1], device=x.device, dtype=x.dtype)
        sum_kernel[(x.numel() // n,)](x, y, n, BLOCK=triton.next_power_of_2(n))
        return y
