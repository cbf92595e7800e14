"""A first stride of one is taken for a transposed matrix, and a column of single elements has it too.

Mechanism: own
Task: row_softmax
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        rows, columns = (x.shape[1], x.shape[0]) if x.stride(0) == 1 else x.shape
        softmax[(rows,)](x, y, columns, BLOCK=triton.next_power_of_2(columns))
        return y
