# task: argmax_rows
# style: tl.reduce over (value, index) pairs with a combine that prefers the lower index
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def better(v1, i1, v2, i2):
    take = (v1 > v2) | ((v1 == v2) & (i1 < i2))
    return tl.where(take, v1, v2), tl.where(take, i1, i2)


@triton.jit
def argmax_kernel(x, o, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + r * n + c, mask=c < n, other=-float("inf"))
    _, at = tl.reduce((v, c), 0, better)
    tl.store(o + r, at.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty(x.shape[0], device=x.device, dtype=torch.int64)
        argmax_kernel[(x.shape[0],)](x, o, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return o
