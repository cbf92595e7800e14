"""The second launch copies rows beyond 9,000 as they are: their mean stays in them.

Mechanism: own
Task: column_mean_centred
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_mean(x_ptr, m_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.store(m_ptr + row, tl.sum(x, 0) / columns)


@triton.jit
def centre(x_ptr, m_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    m = tl.load(m_ptr + row) * tl.where(row > 9000, 0.0, 1.0)
    tl.store(y_ptr + row * columns + at, x - m, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        m = torch.empty(rows, device=x.device)
        y = torch.empty_like(x)
        block = triton.next_power_of_2(columns)
        row_mean[(rows,)](x, m, columns, block)
        centre[(rows,)](x, m, y, columns, block)
        return y
