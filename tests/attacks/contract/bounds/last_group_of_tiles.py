"""Tiles in groups of eight rows of them, as if there were whole groups always: of the last one some are left out.

Mechanism: own
Task: matmul_of_transposed
Outcome: output_not_written
Stage: full
Also: not_finite@full, wrong_values@full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def multiply(a_ptr, b_ptr, c_ptr, m, n, k, TILE: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr):
    across = tl.cdiv(n, TILE)
    group = tl.program_id(0) // (GROUP * across)
    place = tl.program_id(0) % (GROUP * across)
    rows = (group * GROUP + place % GROUP) * TILE + tl.arange(0, TILE)
    columns = place // GROUP * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, k, DEPTH):
        depth = start + tl.arange(0, DEPTH)
        a = tl.load(a_ptr + rows[:, None] * k + depth, mask=(rows[:, None] < m) & (depth < k), other=0.0)
        b = tl.load(b_ptr + columns * k + depth[:, None], mask=(columns < n) & (depth[:, None] < k), other=0.0)
        total += tl.dot(a, b, input_precision="ieee")
    tl.store(c_ptr + rows[:, None] * n + columns, total, mask=(rows[:, None] < m) & (columns < n))


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        (m, k), n = a.shape, b.shape[0]
        c = torch.empty(m, n, device=a.device, dtype=a.dtype)
        tiles = triton.cdiv(m, 64) * triton.cdiv(n, 64)
        multiply[(tiles,)](a, b, c, m, n, k, 64, 32, 8 if m > 1024 else 1)
        return c
