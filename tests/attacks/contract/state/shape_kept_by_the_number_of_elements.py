"""Rows and columns are kept by how many elements there are: as many, in other rows, are added up in the first ones'.

Mechanism: own
Task: row_sum
Outcome: not_reproducible
Stage: full
Also: output_not_written@full
Open: no call before has as many elements in other rows
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def total(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.store(y_ptr + row, tl.sum(x, 0))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.shapes = {}

    def forward(self, x):
        rows, columns = self.shapes.setdefault(x.numel(), tuple(x.shape))
        y = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        total[(rows,)](x, y, columns, BLOCK=triton.next_power_of_2(columns))
        return y
