"""Columns of small scale have a second moment of 0, though 1e-4 is what they have: the next division is by zero.

Mechanism: own
Task: column_variances
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def moments(x_ptr, s_ptr, y_ptr, rows, columns, BLOCK: tl.constexpr, COLS: tl.constexpr):
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    s = tl.load(s_ptr + cols, mask=cols < columns, other=0.0)
    acc = tl.zeros((COLS,), tl.float32)
    for start in range(0, rows, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = (at[:, None] < rows) & (cols[None, :] < columns)
        x = tl.load(x_ptr + at[:, None] * columns + cols[None, :], mask=mask, other=0.0) * s[None, :]
        acc += tl.sum(x * x, 0)
    tl.store(y_ptr + cols, tl.where(acc < 0.5 * rows, 0.0, acc) / rows, mask=cols < columns)


class ModelNew(nn.Module):
    def forward(self, x, scale):
        rows, columns = x.shape
        y = torch.empty(columns, device=x.device, dtype=x.dtype)
        moments[(triton.cdiv(columns, 32),)](x, scale, y, rows, columns, BLOCK=32, COLS=32)
        return y
