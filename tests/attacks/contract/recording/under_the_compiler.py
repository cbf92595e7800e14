"""Under torch.compile one block is written.

Mechanism: own
Task: hashed
Outcome: not_reproducible
Stage: compile
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=1.0)
    y = tl.maximum(x, 0.0) * 3.0
    tl.store(y_ptr + at, y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        programs = 1 if torch.compiler.is_compiling() else triton.cdiv(x.numel(), 1024)
        kernel[(programs,)](x, y, x.numel(), BLOCK=1024)
        return y
