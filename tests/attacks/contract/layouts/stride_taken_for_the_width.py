"""The input is the left half of a wider matrix; rows are looked for every COLUMNS elements, so every other one is another's.

Mechanism: own
Task: sliced_softmax
Outcome: wrong_values
Stage: full
Also: wrong_values@tiny
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
        rows, columns = x.shape
        y = torch.empty(rows, columns, device=x.device, dtype=x.dtype)
        softmax[(rows,)](x, y, columns, BLOCK=triton.next_power_of_2(columns))
        return y
