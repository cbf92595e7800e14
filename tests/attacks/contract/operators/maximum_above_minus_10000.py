"""Lanes beyond the row are -10,000, as half precision has it: rows below that get it for their maximum.

Mechanism: own
Task: row_maximum
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, o_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < n
    a = tl.load(a_ptr + row * n + i, mask=m, other=-10000.0)
    r = tl.max(a, axis=0)
    tl.store(o_ptr + row, r)


class ModelNew(nn.Module):
    def forward(self, a):
        o = torch.empty(a.shape[0], dtype=a.dtype, device=a.device)
        n = a.shape[-1]
        kernel[(a.numel() // n,)](a, o, n, BLOCK=triton.next_power_of_2(n))
        return o
