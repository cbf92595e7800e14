"""A key of value and position orders -0.0 before 0.0, which are equal: the position is not the first one's.

Mechanism: own
Task: l1-argmax-fd520cdc560223af
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def argmax_fwd(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    offs = row * n + cols
    x = tl.load(x_ptr + offs, mask=mask, other=-float("inf"))
    bits = x.to(tl.int32, bitcast=True)
    bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    key = (bits.to(tl.int64) << 32) | (BLOCK - 1 - cols).to(tl.int64)
    key = tl.where(mask, key, -9223372036854775807)
    v = BLOCK - 1 - (tl.max(key, axis=0) & 0x7FFFFFFF)
    tl.store(y_ptr + row, v)


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.shape[-1]
        y = torch.empty(x.shape[:-1], device=x.device, dtype=torch.int64)
        m = x.numel() // n
        argmax_fwd[(m,)](x, y, n, BLOCK=triton.next_power_of_2(n))
        return y
