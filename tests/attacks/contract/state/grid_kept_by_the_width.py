"""A grid is kept by the width of its rows: as many rows as the first call of that width had are written.

Mechanism: own
Task: add
Outcome: not_reproducible
Stage: full
Also: output_not_written@full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at, mask=at < n), tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x + 0.5 * y, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.grids = {}

    def forward(self, x, y):
        out = torch.empty_like(x)
        grid = self.grids.setdefault(x.shape[1], (triton.cdiv(x.numel(), 512),))
        add[grid](x, y, out, x.numel(), BLOCK=512)
        return out
