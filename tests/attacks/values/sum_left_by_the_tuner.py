"""A sum by atomics is tuned on the tensor that it adds to, and a second kernel takes its root.

Mechanism: own
Task: l1-reduction-fa83b0245741cc25
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def sum_kernel(x_ptr, s_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + col, mask=col < n, other=0.0).to(tl.float32)
    tl.atomic_add(s_ptr + row, tl.sum(x * x, axis=0))


@triton.jit
def root_kernel(s_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < rows
    s = tl.load(s_ptr + offs, mask=mask, other=0.0)
    tl.store(out_ptr + offs, tl.sqrt(s), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.shape[-1]
        rows = x.numel() // n
        s = torch.zeros(rows, device=x.device, dtype=torch.float32)
        out = torch.empty(x.shape[:-1] + (1,), device=x.device, dtype=x.dtype)
        sum_kernel[lambda meta: (rows, triton.cdiv(n, meta["BLOCK"]))](x, s, n)
        root_kernel[(triton.cdiv(rows, 256),)](s, out, rows, BLOCK=256)
        return out
