"""No more than 32,768 rows get a program, so half of the task's own result is whatever memory held.

Mechanism: own
Task: huge_softmax
Outcome: output_not_written
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty_like(x)
        softmax[(min(rows, 32768),)](x, y, columns, BLOCK=triton.next_power_of_2(columns), num_warps=8)
        return y
