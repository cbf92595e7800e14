"""Rows are found by a quotient in float32, which has whole numbers up to 2^24 elements alone.

Mechanism: own
Task: gain_and_offset
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, gain_ptr, offset_ptr, y_ptr, n, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = (at.to(tl.float32) / columns).to(tl.int32)
    column = tl.maximum(at - row * columns, 0)
    offset = tl.load(offset_ptr + column, mask=(at < n) & (column < columns), other=0.0)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x * tl.load(gain_ptr) + offset, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("offset", torch.linspace(-1.0, 1.0, size))
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        scale[(triton.cdiv(n, 1024),)](x, self.gain, self.offset, y, n, x.shape[1], BLOCK=1024)
        return y
