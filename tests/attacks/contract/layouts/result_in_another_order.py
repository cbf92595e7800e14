"""Vectors are normed in the order of memory and written to a contiguous result: heads and positions are exchanged.

Mechanism: own
Task: heads_in_front
Outcome: wrong_values
Stage: full
Also: wrong_values@tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rms(x_ptr, y_ptr, D: tl.constexpr):
    at = tl.program_id(0) * D + tl.arange(0, D)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, x * tl.rsqrt(tl.sum(x * x, 0) / D + 1e-6))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape, device=x.device, dtype=x.dtype)
        rms[(x.numel() // x.shape[-1],)](x, y, x.shape[-1])
        return y
