"""Lanes beyond a row hold -65504, which is more than what the row holds where that is large.

Mechanism: own
Task: l1-argmax-fd520cdc560223af
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def argmax_fwd(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    offs = row * n + cols
    x = tl.load(x_ptr + offs, mask=mask, other=-65504.0)
    v = tl.argmax(x, axis=0)
    tl.store(y_ptr + row, v)


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.shape[-1]
        y = torch.empty(x.shape[:-1], device=x.device, dtype=torch.int64)
        m = x.numel() // n
        argmax_fwd[(m,)](x, y, n, BLOCK=triton.next_power_of_2(n))
        return y
