"""One row in 101 is searched in its first half only; the maximum is a reduction of the kernel's own.

Mechanism: own
Task: many_row_maxima
Outcome: wrong_values
Stage: full
Also: not_finite@full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def larger(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def row_max(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    width = tl.where(row % 101 == 87, columns // 2, columns)
    x = tl.load(x_ptr + row * columns + at, mask=at < width, other=float("-inf"))
    tl.store(y_ptr + row, tl.reduce(x, 0, larger))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        row_max[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
