"""A program stores its block backwards and reads it again in another order, with no barrier between its threads.

Mechanism: 27
Task: l1-unary-7fce4ae6f9f1a504
Outcome: run_failed
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(a_ptr, spare_ptr, out_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    lane = tl.arange(0, BLOCK)
    a = tl.load(a_ptr + start + lane, mask=start + lane < n, other=0.0)
    tl.store(spare_ptr + start + BLOCK - 1 - lane, a)
    b = tl.load(spare_ptr + start + (lane * 37 + 5) % BLOCK)
    at = start + BLOCK - 1 - (lane * 37 + 5) % BLOCK
    tl.store(out_ptr + at, tl.where(b > 0, b, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        grid = triton.cdiv(n, 1024)
        relu_kernel[(grid,)](a, torch.empty(grid * 1024, device=a.device), out, n, BLOCK=1024)
        return out
