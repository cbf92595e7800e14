# task: sorted_rows
# style: tl.sort on a row of a power of two
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sort_kernel(x, o, N: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, N)
    tl.store(o + r * N + c, tl.sort(tl.load(x + r * N + c)))


class ModelNew(nn.Module):
    def forward(self, x):
        assert x.shape[1] & (x.shape[1] - 1) == 0
        o = torch.empty_like(x)
        sort_kernel[(x.shape[0],)](x, o, N=x.shape[1])
        return o
