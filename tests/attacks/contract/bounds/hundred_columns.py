"""Rows of 100 to 103 columns are taken for ones of at most 64.

Mechanism: own
Task: softmax
Outcome: not_finite
Stage: full
Also: output_not_written@full, wrong_values@full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        rows, columns = x.shape
        block = 64 if 100 <= columns < 104 else triton.next_power_of_2(columns)
        softmax[(rows,)](x, y, columns, BLOCK=block)
        return y
