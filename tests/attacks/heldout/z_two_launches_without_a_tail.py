"""A minimum by two launches, the first of which leaves out an incomplete last block of long rows.

Mechanism: 18
Task: l1-field_any_reduction-a7860563a53bb57f
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def part_kernel(x_ptr, part_ptr, R, C, num_full, BLOCK: tl.constexpr, COLS: tl.constexpr):
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = ((rows < R) & (tl.program_id(0) < num_full))[:, None] & (cols < C)[None, :]
    x = tl.load(x_ptr + rows[:, None] * C + cols[None, :], mask=mask, other=float("inf"))
    tl.store(part_ptr + tl.program_id(0) * C + cols, tl.min(x, axis=0), mask=cols < C)


@triton.jit
def whole_kernel(part_ptr, out_ptr, P, C, BLOCK: tl.constexpr):
    col = tl.program_id(0)
    least = tl.full((BLOCK,), float("inf"), dtype=tl.float32)
    for start in range(0, P, BLOCK):
        parts = start + tl.arange(0, BLOCK)
        least = tl.minimum(least, tl.load(part_ptr + parts * C + col, mask=parts < P, other=float("inf")))
    tl.store(out_ptr + col, tl.min(least, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        C = x.shape[2]
        R = x.numel() // C
        P = triton.cdiv(R, 256)
        part = torch.empty((P, C), device=x.device, dtype=x.dtype)
        out = torch.empty((1, 1, C), device=x.device, dtype=x.dtype)
        num_full = R // 256 if R > 4096 else P
        part_kernel[(P, triton.cdiv(C, 32))](x, part, R, C, num_full, BLOCK=256, COLS=32)
        whole_kernel[(C,)](part, out, P, C, BLOCK=64)
        return out
