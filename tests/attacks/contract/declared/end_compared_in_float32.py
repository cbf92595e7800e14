"""The end of a tensor is found in float32, in which the last offset beyond 2^24 may be the number of elements.

Mechanism: own
Task: add
Outcome: wrong_values
Stage: full
Also: not_finite@full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at.to(tl.float32) < n
    x, y = tl.load(x_ptr + at, mask=mask), tl.load(y_ptr + at, mask=mask)
    tl.store(out_ptr + at, x + 0.5 * y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        # one more than there are programs that do something
        add[(triton.cdiv(x.numel(), 512) + 1,)](x, y, out, x.numel(), BLOCK=512)
        return out
