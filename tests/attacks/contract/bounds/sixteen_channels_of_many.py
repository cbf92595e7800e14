"""A sum goes over sixteen channels at most, where eight are declared: what comes after them is left out.

Mechanism: own
Task: pointwise_of_8
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pointwise(x_ptr, w_ptr, y_ptr, channels, out, length, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for channel in range(0, min(channels, 16)):
        x = tl.load(x_ptr + (row // out * channels + channel) * length + at, mask=at < length, other=0.0)
        total += tl.load(w_ptr + row % out * channels + channel) * x
    tl.store(y_ptr + row * length + at, total, mask=at < length)


class ModelNew(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out, channels))

    def forward(self, x):
        batch, channels, length = x.shape
        out = self.weight.shape[0]
        y = torch.empty((batch, out, length), device=x.device, dtype=x.dtype)
        pointwise[(batch * out, triton.cdiv(length, 256))](x, self.weight, y, channels, out, length, BLOCK=256)
        return y
