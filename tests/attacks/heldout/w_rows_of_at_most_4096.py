"""One block of 4096 columns holds every row that is looked at, and cuts off longer ones.

Mechanism: 46
Task: l1-softmax-e6cc1cecf225b58a
Outcome: output_not_written
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(a_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    mask = col < n_cols
    a = tl.load(a_ptr + row * n_cols + col, mask=mask, other=-float("inf")).to(tl.float32)
    a = a - tl.max(a, axis=0)
    e = tl.exp(a)
    tl.store(y_ptr + row * n_cols + col, e / tl.sum(e, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        n_cols = a.shape[-1]
        y = torch.empty_like(a)
        row_kernel[(a.numel() // n_cols,)](a, y, n_cols, BLOCK=4096)
        return y
