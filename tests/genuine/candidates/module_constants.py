# task: gelu
# style: module-level constexpr globals of both kinds, and a constant of the math module
import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

INV_SQRT2: tl.constexpr = tl.constexpr(1.0 / math.sqrt(2.0))
HALF = tl.constexpr(0.5)
_BLOCK = 512


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, HALF * x * (1 + tl.erf(x * INV_SQRT2)), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        gelu_kernel[(triton.cdiv(x.numel(), _BLOCK),)](x, y, x.numel(), _BLOCK)
        return y


if __name__ == "__main__":
    model = ModelNew().cuda()
    print(model(torch.randn(128, 128, device="cuda")).shape)
