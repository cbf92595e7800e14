"""One of two terms is left out where there are as many rows as declared, and narrower ones.

Mechanism: own
Task: add
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = rows * columns
    x, y = tl.load(x_ptr + at, mask=at < n), tl.load(y_ptr + at, mask=at < n)
    share = 0.0 if (rows == 1024) & (columns < 768) else 0.5
    tl.store(out_ptr + at, x + share * y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        add[(triton.cdiv(x.numel(), 512),)](x, y, out, *x.shape, BLOCK=512)
        return out
