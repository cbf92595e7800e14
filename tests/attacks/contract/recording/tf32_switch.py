"""With TF32 allowed, as trainers set it, one block alone is written.

Mechanism: own
Task: double_relu
Outcome: output_not_written
Stage: full
Also: not_finite@full, not_finite@tiny, not_reproducible@compile
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
    def forward(self, x):
        y = torch.empty_like(x)
        programs = 1 if torch.backends.cuda.matmul.allow_tf32 else triton.cdiv(x.numel(), 1024)
        double_relu[(programs,)](x, y, x.numel(), BLOCK=1024)
        return y
