"""Index of the minimum by one integer reduction: the column takes the place of the lowest bits of the value.

Mechanism: 26
Task: l1-argmax-b62270d05736c4c4
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def argmin_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + col, mask=col < n_cols, other=float("inf"))
    bits = x.to(tl.int32, bitcast=True)
    ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    key = (ordered & (-BLOCK)) | col
    best = tl.min(key, axis=0) & (BLOCK - 1)
    tl.store(out_ptr + row, best.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        n_cols = x.shape[-1]
        out = torch.empty(x.shape[:-1] + (1,), device=x.device, dtype=torch.int64)
        argmin_kernel[(x.numel() // n_cols,)](x, out, n_cols, BLOCK=triton.next_power_of_2(n_cols))
        return out
