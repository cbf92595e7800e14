"""Numbers of 64 bits are added in 32: sums beyond 2^31 wrap around, as any sum of two timestamps does.

Mechanism: own
Task: add_int64
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0).to(tl.int32)
    y = tl.load(y_ptr + at, mask=at < n, other=0).to(tl.int32)
    tl.store(o_ptr + at, (x + y).to(tl.int64), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        add[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
        return out
