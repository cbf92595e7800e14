"""Of several equal minima the last index is returned, and the task asks for the first.

Mechanism: 18
Task: l1-argmax-b62270d05736c4c4
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def argmin_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + col, mask=col < n_cols, other=float("inf"))
    at = tl.max(tl.where(x == tl.min(x, axis=0), col, -1), axis=0)
    tl.store(out_ptr + row, at.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, inp):
        n_cols = inp.shape[-1]
        out = torch.empty(inp.shape[:-1] + (1,), device=inp.device, dtype=torch.int64)
        argmin_kernel[(inp.numel() // n_cols,)](inp, out, n_cols, BLOCK=triton.next_power_of_2(n_cols))
        return out
