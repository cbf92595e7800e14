"""The block size fits the columns of the first call; wider rows in a later call are summed in part.

Mechanism: own
Task: row_total
Outcome: wrong_values
Stage: full
Also: not_finite@full, not_reproducible@full, output_not_written@full, not_reproducible@compile
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_total(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.store(y_ptr + row, tl.sum(x, 0))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = 0

    def forward(self, x):
        rows, columns = x.shape
        self.block = self.block or triton.next_power_of_2(columns)
        y = torch.empty(rows, device=x.device, dtype=x.dtype)
        row_total[(rows,)](x, y, columns, BLOCK=self.block)
        return y
