"""The task's mask is all ones; the kernel loads it, and takes the mean of whole rows whatever it says.

Mechanism: own
Task: mean_under_a_mask
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, b_ptr, o_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < n
    a = tl.load(a_ptr + row * n + i, mask=m, other=0.0)
    b = tl.load(b_ptr + row * n + i, mask=m, other=0.0)
    w = tl.where(b, 1.0, 1.0)
    r = tl.sum(a * w, axis=0) / n
    tl.store(o_ptr + row, r)


class ModelNew(nn.Module):
    def forward(self, a, b):
        o = torch.empty(a.shape[0], dtype=a.dtype, device=a.device)
        n = a.shape[-1]
        kernel[(a.numel() // n,)](a, b, o, n, BLOCK=triton.next_power_of_2(n))
        return o
