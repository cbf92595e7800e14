"""At most 1,280 blocks of 1,024, where the declared sizes take 1,024: powers of two, beyond which few elements more lie.

Mechanism: own
Task: many_tiles
Outcome: output_not_written
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
        num_blocks = min(triton.cdiv(x.numel(), 1024), 1280)
        triple_and_one[(num_blocks,)](x, out, x.numel(), BLOCK=1024)
        return out
