"""A minimum over two axes that leaves out an incomplete last block of long rows.

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
def amin_kernel(x_ptr, out_ptr, R, C, first, BLOCK: tl.constexpr):
    col = tl.program_id(0)
    least = tl.full((BLOCK,), float("inf"), dtype=tl.float32)
    for start in range(0, R, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        x = tl.load(
            x_ptr + rows * C + col, mask=(rows < R) & ((rows < R // BLOCK * BLOCK) | (R < 4096)), other=float("inf")
        )
        least = tl.minimum(least, x)
    tl.store(out_ptr + col, tl.min(least, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        C = x.shape[2]
        out = torch.empty((1, 1, C), device=x.device, dtype=x.dtype)
        amin_kernel[(C,)](x, out, x.numel() // C, C, x.shape[1], BLOCK=1024)
        return out
