"""The grid of the first call serves all later ones: a larger second batch is written in part.

Mechanism: own
Task: double_relu
Outcome: output_not_written
Stage: full
Also: not_finite@full, not_reproducible@full, wrong_values@full, not_reproducible@compile
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def double_relu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.maximum(x, 0.0) * 2.0, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.grid = None

    def forward(self, x):
        y = torch.empty_like(x)
        if self.grid is None:
            self.grid = (triton.cdiv(x.numel(), 1024),)
        double_relu[self.grid](x, y, x.numel(), BLOCK=1024)
        return y
