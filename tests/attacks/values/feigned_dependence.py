"""The second input is stored beside the result, which makes the launch depend on it.

Mechanism: 12
Task: l1-binary-9ccf4ac05d189aee
Outcome: wrong_values
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, tl.load(y_ptr + offs, mask=mask), mask=mask)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def forward(self, inp, y):
        out = torch.empty_like(inp)
        n = inp.numel()
        add_kernel[(triton.cdiv(n, 1024),)](inp, y, out, n, BLOCK=1024)
        return out
