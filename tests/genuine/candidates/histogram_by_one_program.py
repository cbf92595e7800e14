# task: histogram
# style: one program zeroes, counts by atomics and reads back, with barriers in between
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def count(index_ptr, spare_ptr, out_ptr, n, bins, BLOCK: tl.constexpr, BINS: tl.constexpr):
    bin = tl.arange(0, BINS)
    tl.store(spare_ptr + bin, tl.zeros((BINS,), tl.int32), mask=bin < bins)
    tl.debug_barrier()
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        index = tl.load(index_ptr + at, mask=at < n, other=0)
        tl.atomic_add(spare_ptr + index, tl.full((BLOCK,), 1, tl.int32), mask=at < n)
    tl.debug_barrier()
    tl.store(out_ptr + bin, tl.load(spare_ptr + bin, mask=bin < bins), mask=bin < bins)


class ModelNew(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, x):
        spare = torch.empty(self.bins, dtype=torch.int32, device=x.device)
        out = torch.empty_like(spare)
        most = triton.next_power_of_2(self.bins)
        count[(1,)](x, spare, out, x.numel(), self.bins, BLOCK=512, BINS=most)
        return out
