"""Integers are compared as float32, to which neighbours beyond 2^24 are equal: the first of them wins.

Mechanism: own
Task: argmax_int32
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * n + cols, mask=mask, other=0).to(tl.float32)
    x = tl.where(mask, x, -float("inf"))
    y = tl.argmax(x, axis=0).to(tl.int64)
    tl.store(o_ptr + row, y)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        n = x.shape[-1]
        o = torch.empty(x.shape[:-1], device=x.device, dtype=torch.int64)
        kernel[(x.numel() // n,)](x, o, n, BLOCK=triton.next_power_of_2(n))
        return o
