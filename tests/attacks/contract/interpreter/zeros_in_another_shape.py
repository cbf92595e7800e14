"""Zeros are stored as one row and numbers as a square over them: which of two threads comes last is nobody's to say.

Mechanism: own
Task: triu
Outcome: run_failed
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def upper(x_ptr, y_ptr, rows, columns, diagonal, LINE: tl.constexpr, TILE: tl.constexpr):
    row, column = tl.program_id(0) * TILE, tl.program_id(1) * TILE
    line = tl.arange(0, LINE)
    r, c = row + line // TILE, column + line % TILE
    tl.store(y_ptr + r * columns + c, tl.zeros((LINE,), tl.float32), mask=(r < rows) & (c < columns))
    i, j = row + tl.arange(0, TILE)[:, None], column + tl.arange(0, TILE)[None, :]
    inside = (i < rows) & (j < columns) & (j >= i + diagonal)
    tl.store(y_ptr + i * columns + j, tl.load(x_ptr + i * columns + j, mask=inside), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, diagonal):
        rows, columns = x.shape
        y = torch.empty_like(x)
        upper[(triton.cdiv(rows, 32), triton.cdiv(columns, 32))](x, y, rows, columns, diagonal, LINE=1024, TILE=32)
        return y
