"""Bytes are added in 32 bits, where PyTorch's sum of two wraps around at 256.

Mechanism: own
Task: mean_of_bytes
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask, other=1)
    y = tl.load(y_ptr + offs, mask=mask, other=1)
    tl.store(o_ptr + offs, ((x.to(tl.int32) + y.to(tl.int32)) // 2).to(tl.uint8), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        x = x.contiguous()
        y = y.contiguous()
        o = torch.empty(x.shape, device=x.device, dtype=x.dtype)
        n = x.numel()
        kernel[(triton.cdiv(n, 1024),)](x, y, o, n, BLOCK=1024)
        return o
