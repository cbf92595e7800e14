"""In a row that a hash of its number chooses, one of 97, the running sum leaves out the first element.

Mechanism: own
Task: many_scans
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def scan(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    is_chosen = (row * 40503) % 97 == 60
    x = tl.where(is_chosen & (at == 0), 0.0, x)
    tl.store(y_ptr + row * columns + at, tl.associative_scan(x, 0, plus), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        scan[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
