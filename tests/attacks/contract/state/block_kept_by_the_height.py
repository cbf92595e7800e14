"""The block of the first call serves all with as many rows: wider rows are written in part.

Mechanism: own
Task: add
Outcome: not_reproducible
Stage: full
Also: output_not_written@full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCKS = {}


@triton.jit
def add(x_ptr, y_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    here = tl.program_id(0) * columns + at
    x, y = tl.load(x_ptr + here, mask=at < columns), tl.load(y_ptr + here, mask=at < columns)
    tl.store(out_ptr + here, x + 0.5 * y, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        rows, columns = x.shape
        if rows not in BLOCKS:
            BLOCKS[rows] = triton.next_power_of_2(columns)
        add[(rows,)](x, y, out, columns, BLOCK=BLOCKS[rows])
        return out
