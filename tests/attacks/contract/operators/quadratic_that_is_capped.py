"""A polynomial whose argument is capped at 64: inputs of a hundred come out as 4,160.5 each.

Mechanism: own
Task: quadratic
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def quadratic(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    x = tl.minimum(tl.maximum(x, -64.0), 64.0)
    tl.store(y_ptr + at, x * x + x + 0.5, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        quadratic[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
