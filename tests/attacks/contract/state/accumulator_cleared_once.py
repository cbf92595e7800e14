"""The accumulator is zeroed when it is made and kept: the second call returns the sum of both calls.

Mechanism: own
Task: grand_total
Outcome: not_reproducible
Stage: compile
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def total(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.atomic_add(y_ptr, tl.sum(x, 0))


@triton.jit
def copy(y_ptr, o_ptr):
    tl.store(o_ptr, tl.load(y_ptr))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.sum = None

    def forward(self, x):
        if self.sum is None:
            self.sum = torch.zeros((), device=x.device, dtype=x.dtype)
        out = torch.empty((), device=x.device, dtype=x.dtype)
        total[(triton.cdiv(x.numel(), 1024),)](x, self.sum, x.numel(), BLOCK=1024)
        copy[(1,)](self.sum, out)
        return out
