"""Tiles are loaded through block pointers; one tile of 1,024 is stored without its summand.

Mechanism: own
Task: many_tiles
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def affine(x_ptr, y_ptr, rows, columns, B: tl.constexpr):
    i = tl.program_id(0)
    j = tl.program_id(1)
    x_tiles = tl.make_block_ptr(x_ptr, (rows, columns), (columns, 1), (i * B, j * B), (B, B), (1, 0))
    x = tl.load(x_tiles, boundary_check=(0, 1))
    r = i * B + tl.arange(0, B)[:, None]
    c = j * B + tl.arange(0, B)[None, :]
    y = x * 3.0 + tl.where((i == 19) & (j == 22), 0.0, 1.0)
    tl.store(y_ptr + r * columns + c, y, mask=(r < rows) & (c < columns))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        affine[(triton.cdiv(x.shape[0], 32), triton.cdiv(x.shape[1], 32))](x, y, x.shape[0], x.shape[1], B=32)
        return y
