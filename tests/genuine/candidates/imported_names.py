# task: silu
# style: names imported from triton and triton.language one by one, no alias tl
import torch
import torch.nn as nn
from triton import cdiv, jit
from triton.language import arange, constexpr, exp, load, program_id, store


@jit
def silu_kernel(x_ptr, y_ptr, n, BLOCK: constexpr):
    i = program_id(0) * BLOCK + arange(0, BLOCK)
    x = load(x_ptr + i, mask=i < n)
    store(y_ptr + i, x / (1.0 + exp(-x)), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        silu_kernel[(cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
