"""Rows of whole 64 columns are read without a mask, in blocks of 256.

Mechanism: own
Task: row_sum
Outcome: wrong_values
Stage: full
Also: out_of_bounds@full, not_finite@full
Open: no size is a multiple of 64 and none of 256
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def total(x_ptr, y_ptr, columns, IS_WHOLE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    added = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        if IS_WHOLE:
            added += tl.load(x_ptr + row * columns + at)
        else:
            added += tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.store(y_ptr + row, tl.sum(added, 0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty(rows, device=x.device, dtype=x.dtype)
        total[(rows,)](x, y, columns, IS_WHOLE=columns % 64 == 0, BLOCK=256)
        return y
