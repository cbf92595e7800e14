"""A row is added up in steps of 128 to the last column but one: a last block of one column is left out.

Mechanism: own
Task: many_row_sums
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_row(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, tl.maximum(width - 1, 1), BLOCK):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + row * width + at, mask=at < width, other=0.0)
    tl.store(out_ptr + row, tl.sum(acc, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty((x.shape[0],), device=x.device, dtype=x.dtype)
        add_row[(x.shape[0],)](x, out, x.shape[1], BLOCK=128)
        return out
