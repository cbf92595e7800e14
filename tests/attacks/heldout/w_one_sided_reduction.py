"""A reduction squares its right operand only, which is right from left to right and nonsense as a tree.

Mechanism: own
Task: l1-reduction-fa83b0245741cc25
Outcome: wrong_values
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_square(total, x):
    return total + x * x


@triton.jit
def norm_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + col - 1, mask=(col > 0) & (col <= n_cols), other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.sqrt(tl.reduce(x, 0, add_square)))


class ModelNew(nn.Module):
    def forward(self, x):
        n_cols = x.shape[-1]
        out = torch.empty(x.shape[:-1] + (1,), device=x.device, dtype=x.dtype)
        norm_kernel[(x.numel() // n_cols,)](x, out, n_cols, BLOCK=triton.next_power_of_2(n_cols + 1))
        return out
