"""A diagonal below the main one is taken for the main one.

Mechanism: own
Task: triu
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, o_ptr, columns, diagonal, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.store(o_ptr + row * columns + at, tl.where(at - row >= diagonal, x, 0.0), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x, diagonal):
        o = torch.empty_like(x)
        kernel[(x.shape[0],)](x, o, x.shape[1], max(diagonal, 0), BLOCK=triton.next_power_of_2(x.shape[1]))
        return o
