"""Second moments of the smaller half of the columns are 0, and what divides by them is infinite.

Mechanism: own
Task: wide_variances
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
    largest = tl.abs(tl.load(s_ptr + columns - 1))
    s = tl.where(tl.abs(s) < 1e-3 * largest, 0.0, s)
    acc = tl.zeros((COLS,), tl.float32)
    for start in range(0, rows, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = (at[:, None] < rows) & (cols[None, :] < columns)
        x = tl.load(x_ptr + at[:, None] * columns + cols[None, :], mask=mask, other=0.0) * s[None, :]
        acc += tl.sum(x * x, 0)
    tl.store(y_ptr + cols, acc / rows, mask=cols < columns)


class ModelNew(nn.Module):
    def forward(self, x, factors):
        rows, columns = x.shape
        y = torch.empty(columns, device=x.device, dtype=x.dtype)
        moments[(triton.cdiv(columns, 32),)](x, factors, y, rows, columns, BLOCK=32, COLS=32)
        return y
