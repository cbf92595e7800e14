"""A grid of (n + 1022) // 1024 blocks: where the last block has a single element, it is left out.

Mechanism: own
Task: many_tiles
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def triple_and_one(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * 3.0 + 1.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        triple_and_one[(max(1, (x.numel() + 1022) // 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
