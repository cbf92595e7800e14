"""The channel is computed from the place in memory as if images were contiguous; the task's own are channels-last.

Mechanism: own
Task: channels_last_scale
Outcome: wrong_values
Stage: full
Also: wrong_values@tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, w_ptr, y_ptr, n, channels, area, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    w = tl.load(w_ptr + (at // area) % channels, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.sigmoid(x * w), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        scale[(triton.cdiv(n, 512),)](x, self.weight, y, n, x.shape[1], x.shape[2] * x.shape[3], BLOCK=512)
        return y
