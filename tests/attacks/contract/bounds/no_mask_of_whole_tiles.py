"""A matrix of whole 32 by 32 elements is transposed without a mask, in tiles of 64 by 64.

Mechanism: own
Task: transpose_scale
Outcome: out_of_bounds
Stage: full
Also: wrong_values@full
Open: no size is a multiple of 32 and none of 64 in both dimensions
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def turn(x_ptr, y_ptr, rows, columns, IS_WHOLE: tl.constexpr, TILE: tl.constexpr):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    mask = IS_WHOLE | ((row[:, None] < rows) & (column[None, :] < columns))
    x = tl.load(x_ptr + row[:, None] * columns + column[None, :], mask=mask)
    tl.store(y_ptr + column[None, :] * rows + row[:, None], 3.0 * x - 1.0, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty((columns, rows), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(rows, 64), triton.cdiv(columns, 64))
        turn[grid](x, y, rows, columns, IS_WHOLE=rows % 32 == 0 and columns % 32 == 0, TILE=64)
        return y
