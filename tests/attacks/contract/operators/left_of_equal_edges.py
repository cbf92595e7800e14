"""A value that equals an edge is put on its left.

Mechanism: own
Task: searchsorted
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(e_ptr, x_ptr, o_ptr, edges, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    count = tl.zeros((BLOCK,), tl.int64)
    for j in range(edges):
        count += (tl.load(e_ptr + j) < x).to(tl.int64)
    tl.store(o_ptr + at, count, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, edges, x):
        o = torch.empty(x.shape, device=x.device, dtype=torch.int64)
        kernel[(triton.cdiv(x.numel(), 1024),)](edges, x, o, edges.numel(), x.numel(), BLOCK=1024)
        return o
