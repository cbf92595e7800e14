"""Rows lie on the grid's second axis, which a GPU limits to 65,535: at the task's own size the launch fails.

Mechanism: own
Task: huge_rows
Outcome: out_of_resources
Stage: compile
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_rows(x_ptr, s_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.store(y_ptr + row * columns + at, x * tl.load(s_ptr + row), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x, scale):
        rows, columns = x.shape
        y = torch.empty_like(x)
        scale_rows[(triton.cdiv(columns, 1024), rows)](x, scale, y, columns, BLOCK=1024)
        return y
