"""Columns are added up by atomics in one launch; the next one subtracts the mean from the first 5,000 rows only.

Mechanism: own
Task: centred_columns
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_up(x_ptr, t_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.atomic_add(t_ptr + at, x, mask=at < columns)


@triton.jit
def centre(x_ptr, t_ptr, y_ptr, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    t = tl.load(t_ptr + at, mask=at < columns, other=0.0)
    tl.store(y_ptr + row * columns + at, x - tl.where(row < 5000, t / rows, 0.0), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        total = torch.zeros(columns, device=x.device, dtype=x.dtype)
        y = torch.empty_like(x)
        block = triton.next_power_of_2(columns)
        add_up[(rows,)](x, total, columns, block)
        centre[(rows,)](x, total, y, rows, columns, block)
        return y
