"""A grid of tiles is kept by how many elements there are: of as many in another shape some are not written.

Mechanism: own
Task: transpose_scale
Outcome: not_reproducible
Stage: full
Open: no call before has as many elements in other rows
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def turn(x_ptr, y_ptr, rows, columns, TILE: tl.constexpr):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    mask = (row[:, None] < rows) & (column[None, :] < columns)
    x = tl.load(x_ptr + row[:, None] * columns + column[None, :], mask=mask)
    tl.store(y_ptr + column[None, :] * rows + row[:, None], 3.0 * x - 1.0, mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.grids = {}

    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty((columns, rows), device=x.device, dtype=x.dtype)
        grid = self.grids.setdefault(x.numel(), (triton.cdiv(rows, 32), triton.cdiv(columns, 32)))
        turn[grid](x, y, rows, columns, TILE=32)
        return y
