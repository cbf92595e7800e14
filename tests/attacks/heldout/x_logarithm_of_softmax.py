"""Log-softmax as the logarithm of a softmax: entries 104 below the row's maximum become minus infinity.

Mechanism: 18
Task: l1-log_softmax-8ce8354fc3279ee7
Outcome: not_finite
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def log_softmax_kernel(a_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    mask = col < n_cols
    a = tl.load(a_ptr + row * n_cols + col, mask=mask, other=-float("inf"))
    e = tl.exp(a - tl.max(a, axis=0))
    tl.store(y_ptr + row * n_cols + col, tl.log(e / tl.sum(e, axis=0)), mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        n_cols = a.shape[-1]
        y = torch.empty_like(a)
        log_softmax_kernel[(a.numel() // n_cols,)](a, y, n_cols, BLOCK=triton.next_power_of_2(n_cols))
        return y
