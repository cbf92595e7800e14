# task: silu
# style: a flag given as a truth value at run time, used as a branch and as a factor
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu(x_ptr, y_ptr, n, negate, doubled, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    if negate:
        x = -x
    x = tl.where(doubled, 2 * x, x) * (1 + negate)
    tl.store(y_ptr + at, x / (1 + tl.exp(-x)), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, negate=False):
        super().__init__()
        self.negate = negate

    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        silu[(triton.cdiv(n, 1024),)](x, y, n, self.negate, not x.is_contiguous(), BLOCK=1024)
        return y
