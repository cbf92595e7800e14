"""A position is counted up in float32, in which nothing more can be counted from 2^24 on.

Mechanism: own
Task: add
Outcome: not_finite
Stage: full
Also: wrong_values@full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    first = tl.program_id(0) * 1.0 * BLOCK
    while first < n:
        at = (tl.arange(0, BLOCK) + first).to(tl.int32)
        x, y = tl.load(x_ptr + at, mask=at < n), tl.load(y_ptr + at, mask=at < n)
        tl.store(out_ptr + at, x + 0.5 * y, mask=at < n)
        first += tl.num_programs(0) * BLOCK


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        add[(64,)](x, y, out, x.numel(), BLOCK=256)
        return out
