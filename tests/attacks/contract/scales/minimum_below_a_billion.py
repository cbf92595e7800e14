"""Lanes beyond the row hold 1e9, which is the minimum of larger rows.

Mechanism: own
Task: row_minimum
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, o_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=1e9)
    tl.store(o_ptr + row, tl.min(x, 0))


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        kernel[(x.shape[0],)](x, o, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return o
