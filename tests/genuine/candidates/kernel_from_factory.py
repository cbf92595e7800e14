# task: gelu
# style: the kernel is defined inside a function that is called once, at import
import torch
import torch.nn as nn
import triton
import triton.language as tl


def build_kernel():
    @triton.jit
    def gelu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0)
        y = 0.5 * x * (1.0 + tl.erf(x * 0.70710678))
        tl.store(y_ptr + i, y, mask=i < n)

    return gelu_kernel


GELU = build_kernel()


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        GELU[(triton.cdiv(n, 512),)](x, y, n, BLOCK=512)
        return y
