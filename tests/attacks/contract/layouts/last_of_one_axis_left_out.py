"""A grid of one axis has no block for a last element that is alone in it, and nothing else is there to be moved.

Mechanism: own
Task: gaussian
Outcome: wrong_values
Also: output_not_written@full, not_finite@full
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gaussian(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.exp(-x * x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        gaussian[(max(1, (x.numel() + 1022) // 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
