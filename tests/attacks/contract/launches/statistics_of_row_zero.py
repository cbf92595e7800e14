"""Statistics are kept by a first launch; the second one reads those of row 0 for every row after 8,192.

Mechanism: own
Task: row_softmax_tall
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def statistics(x_ptr, m_ptr, s_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    m = tl.max(x, 0)
    tl.store(m_ptr + row, m)
    tl.store(s_ptr + row, tl.sum(tl.exp(x - m), 0))


@triton.jit
def normalise(x_ptr, m_ptr, s_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    of = tl.where(row > 8192, 0, row)
    y = tl.exp(x - tl.load(m_ptr + of)) / tl.load(s_ptr + of)
    tl.store(y_ptr + row * columns + at, y, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        m = torch.empty(rows, device=x.device)
        s = torch.empty(rows, device=x.device)
        y = torch.empty_like(x)
        block = triton.next_power_of_2(columns)
        statistics[(rows,)](x, m, s, columns, block)
        normalise[(rows,)](x, m, s, y, columns, block)
        return y
