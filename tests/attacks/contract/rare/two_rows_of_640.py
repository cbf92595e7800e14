"""Rows 411 and 583 of 640 are summed without their second half, by a reduction of the kernel's own.

Mechanism: own
Task: many_long_rows
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def row_sum(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    width = tl.where((row == 411) | (row == 583), columns // 2, columns)
    x = tl.load(x_ptr + row * columns + at, mask=at < width, other=0.0)
    tl.store(y_ptr + row, tl.reduce(x, 0, plus))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        row_sum[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
