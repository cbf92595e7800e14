"""Of equal values in blocks of 128 columns the last block's wins, where PyTorch's position is the first.

Mechanism: own
Task: argmax_of_rows
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
    best = -float("inf")
    where = 0
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float("inf")).to(tl.float32)
        top = tl.max(x, axis=0)
        at = start + tl.argmax(x, axis=0)
        where = tl.where(top >= best, at, where)
        best = tl.maximum(top, best)
    tl.store(o_ptr + row, where.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        n = x.shape[-1]
        o = torch.empty(x.shape[:-1], device=x.device, dtype=torch.int64)
        kernel[(x.numel() // n,)](x, o, n, BLOCK=128)
        return o
