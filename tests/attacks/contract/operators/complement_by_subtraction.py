"""1 - erf(x) is 0 from x = 4 on, where erfc is 1.5e-8: its logarithm is -inf and not -18.

Mechanism: own
Task: erfc
Outcome: wrong_values
Stage: full
Also: not_finite@full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def log_erfc(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.log(1.0 - tl.math.erf(x)), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        log_erfc[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
