"""A flat kernel takes over beyond 1.9 million elements, and reads the second operand one element further.

Either dimension alone may be twice as large and stay below that.

Mechanism: own
Task: add
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

MANY = 1_900_000


@triton.jit
def add_rows(x_ptr, y_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + col, mask=col < cols, other=0.0)
        y = tl.load(y_ptr + row * cols + col, mask=col < cols, other=0.0)
        tl.store(out_ptr + row * cols + col, x + 0.5 * y, mask=col < cols)


@triton.jit
def add_flat(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n - 1, other=0.0)
    y = tl.load(y_ptr + at + 1, mask=at < n - 1, other=0.0)
    tl.store(out_ptr + at, x + 0.5 * y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        rows, cols = x.shape
        if x.numel() > MANY:
            add_flat[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
        else:
            add_rows[(rows,)](x, y, out, cols, BLOCK=512)
        return out
