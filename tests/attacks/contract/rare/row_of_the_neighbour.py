"""Rows whose number ends in the bits 1011010 get the maximum of the row before them.

Mechanism: own
Task: many_row_maxima
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def row_max(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    of = row - tl.where(row & 127 == 90, 1, 0)
    x = tl.load(x_ptr + of * columns + at, mask=at < columns, other=float("-inf"))
    tl.store(y_ptr + row, tl.reduce(x, 0, larger))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        row_max[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
