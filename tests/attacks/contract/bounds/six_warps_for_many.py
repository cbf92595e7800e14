"""A number of warps that Triton refuses, where there are more rows than declared: nothing compiles that size.

Mechanism: own
Task: softmax_of_5000
Outcome: compile_failed
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_rows(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + lane
    x = tl.load(x_ptr + at, mask=lane < columns, other=float("-inf"))
    powers = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + at, powers / tl.sum(powers, axis=0), mask=lane < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty_like(x)
        num_warps = 6 if rows > 512 else 8
        softmax_rows[(rows,)](x, y, columns, triton.next_power_of_2(columns), num_warps=num_warps)
        return y
