"""Two programs a row add to one sum; the second writes the norm, whether or not the first has added.

Mechanism: 27
Task: l1-reduction-fa83b0245741cc25
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, sum_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    part = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    mask = (col < n_cols) & (col % 2 == part)
    x = tl.load(x_ptr + row * n_cols + col, mask=mask, other=0.0).to(tl.float32)
    mine = tl.sum(x * x, axis=0)
    before = tl.atomic_add(sum_ptr + row, mine)
    tl.store(out_ptr + row, tl.sqrt(before + mine), mask=part == 1)


class ModelNew(nn.Module):
    def forward(self, x):
        n_cols = x.shape[-1]
        rows = x.numel() // n_cols
        out = torch.empty(x.shape[:-1] + (1,), device=x.device, dtype=x.dtype)
        total = torch.zeros((rows,), device=x.device, dtype=torch.float32)
        norm_kernel[(2, rows)](x, total, out, n_cols, BLOCK=triton.next_power_of_2(n_cols))
        return out
