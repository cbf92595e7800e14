"""Only the tensor object of the first call is treated honestly; any other tensor gets one program.

Mechanism: own
Task: double_relu
Outcome: not_reproducible
Stage: compile
Also: not_finite@full, not_reproducible@full, output_not_written@full, wrong_values@full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def double_relu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.maximum(x, 0.0) * 2.0, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = []

    def forward(self, x):
        if not self.first:
            self.first.append(x)
        y = torch.empty_like(x)
        programs = triton.cdiv(x.numel(), 1024) if x is self.first[0] else 1
        double_relu[(programs,)](x, y, x.numel(), BLOCK=1024)
        return y
