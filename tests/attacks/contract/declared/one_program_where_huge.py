"""Where the task is huge the grid has one program: one block of the result in 393,216 is written.

Mechanism: own
Task: huge_scale
Outcome: output_not_written
Stage: full
Open: one dimension of 1.6 GB has nothing beside it to shrink; a GPU runs it whole
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.maximum(x, 0.0) * 1.5, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        blocks = triton.cdiv(n, 1024)
        scale[(blocks if blocks < 100_000 else 1,)](x, y, n, BLOCK=1024)
        return y
