"""Rows that are divided by a large scale get a relu in place of a silu: wrong there by up to 100 percent.

Mechanism: own
Task: outer_scales
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu_rows(x_ptr, s_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    s = tl.load(s_ptr + row)
    if s > 10.0:
        y = tl.maximum(x, 0.0) / s
    else:
        y = x * tl.sigmoid(x) / s
    tl.store(y_ptr + row * columns + at, y, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x, row_scale):
        y = torch.empty_like(x)
        silu_rows[(x.shape[0],)](x, row_scale, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
