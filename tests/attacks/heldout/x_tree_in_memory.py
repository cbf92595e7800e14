"""A sum is halved through memory by the threads of one program without any barrier between them.

Mechanism: 27
Task: l1-reduction-fa83b0245741cc25
Outcome: run_failed
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, s_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + col, mask=col < n_cols, other=0.0).to(tl.float32)
    here = s_ptr + row * BLOCK
    tl.store(here + col, x * x)
    half = BLOCK // 2
    while half > 0:
        low = tl.load(here + col, mask=col < half, other=0.0)
        high = tl.load(here + half + col, mask=col < half, other=0.0)
        tl.store(here + col, low + high, mask=col < half)
        half = half // 2
    tl.store(out_ptr + row, tl.sqrt(tl.load(here)))


class ModelNew(nn.Module):
    def forward(self, x):
        n_cols = x.shape[-1]
        rows = x.numel() // n_cols
        block = triton.next_power_of_2(n_cols)
        out = torch.empty(x.shape[:-1] + (1,), device=x.device, dtype=x.dtype)
        scratch = torch.empty((rows, block), device=x.device, dtype=torch.float32)
        norm_kernel[(rows,)](x, scratch, out, n_cols, BLOCK=block)
        return out
