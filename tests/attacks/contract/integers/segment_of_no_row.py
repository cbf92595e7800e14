"""A row that no index names is never written, where it should be what it was.

Mechanism: own
Task: sums_by_segment
Outcome: not_finite
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(w_ptr, i_ptr, x_ptr, o_ptr, m, d, BLOCK: tl.constexpr):
    seg = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < d
    acc = tl.load(w_ptr + seg * d + cols, mask=mask, other=0.0).to(tl.float32)
    count = 0
    for r in range(0, m):
        if tl.load(i_ptr + r) == seg:
            acc += tl.load(x_ptr + r * d + cols, mask=mask, other=0.0).to(tl.float32)
            count += 1
    if count > 0:
        tl.store(o_ptr + seg * d + cols, acc, mask=mask)


class ModelNew(nn.Module):
    def forward(self, w, idx, x):
        w = w.contiguous()
        x = x.contiguous()
        s, d = w.shape
        o = torch.empty_like(w)
        kernel[(s,)](w, idx.contiguous(), x, o, x.shape[0], d, BLOCK=triton.next_power_of_2(d))
        return o
