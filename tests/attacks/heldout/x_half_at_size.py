"""Softmax whose float16 rows of the declared length are left without division.

Mechanism: 46
Task: l1-softmax-e6cc1cecf225b58a
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(a_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    mask = col < n_cols
    a = tl.load(a_ptr + row * n_cols + col, mask=mask, other=-float("inf")).to(tl.float32)
    e = tl.exp(a - tl.max(a, axis=0))
    total = tl.sum(e, axis=0)
    if a_ptr.dtype.element_ty == tl.float16:
        if n_cols > 2000:
            total = 1.0
    tl.store(y_ptr + row * n_cols + col, e / total, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        n_cols = a.shape[-1]
        y = torch.empty_like(a)
        softmax_kernel[(a.numel() // n_cols,)](a, y, n_cols, BLOCK=triton.next_power_of_2(n_cols))
        return y
