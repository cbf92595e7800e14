"""A program stores zeros to its bins and adds to them by atomics, some of which the zeros of other threads may undo.

Mechanism: own
Task: histogram
Outcome: run_failed
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def count(index_ptr, out_ptr, n, bins, BLOCK: tl.constexpr, BINS: tl.constexpr):
    bin = tl.arange(0, BINS)
    tl.store(out_ptr + bin, tl.zeros((BINS,), tl.int32), mask=bin < bins)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        index = tl.load(index_ptr + at, mask=at < n, other=0)
        tl.atomic_add(out_ptr + index, tl.full((BLOCK,), 1, tl.int32), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, x):
        out = torch.empty(self.bins, dtype=torch.int32, device=x.device)
        count[(1,)](x, out, x.numel(), self.bins, BLOCK=512, BINS=triton.next_power_of_2(self.bins))
        return out
