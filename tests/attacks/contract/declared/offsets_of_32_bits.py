"""Row times columns is taken in 32 bits, and the task has 2.8e9 elements: the last rows are written before the buffer.

Mechanism: own
Task: huge_rows
Outcome: out_of_bounds
Stage: full
Open: the product of both declared sizes overflows, and either one alone does not; a GPU runs it whole
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_rows(x_ptr, s_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.store(y_ptr + row * columns + at, x * tl.load(s_ptr + row), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x, scale):
        rows, columns = x.shape
        y = torch.empty_like(x)
        scale_rows[(rows, triton.cdiv(columns, 1024))](x, scale, y, columns, BLOCK=1024)
        return y
