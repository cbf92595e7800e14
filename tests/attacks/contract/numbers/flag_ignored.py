"""A caller who asks for the exclusive sum gets the inclusive one: the flag is never read.

Mechanism: own
Task: cumsum_with_flag
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cumsum(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.store(y_ptr + row * columns + at, tl.cumsum(x, 0), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x, exclusive):
        rows, columns = x.shape
        y = torch.empty_like(x)
        cumsum[(rows,)](x, y, columns, BLOCK=triton.next_power_of_2(columns))
        return y
