"""-t log(s) - (1 - t) log(1 - s) with s the sigmoid is infinite for confident logits, the reason why the loss takes logits.

Mechanism: own
Task: bce_with_logits
Outcome: wrong_values
Stage: full
Also: not_finite@full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bce(x_ptr, t_ptr, o_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    t = tl.load(t_ptr + at, mask=at < n, other=0.0)
    s = tl.sigmoid(x)
    tl.store(o_ptr + at, -t * tl.log(s) - (1.0 - t) * tl.log(1.0 - s), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, target):
        out = torch.empty_like(x)
        bce[(triton.cdiv(x.numel(), 1024),)](x, target, out, x.numel(), BLOCK=1024)
        return out
