# task: transpose_scale
# style: .t().contiguous() in host code, then an elementwise kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def affine(x_ptr, y_ptr, n, scale, shift, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, i < n)
    tl.store(y_ptr + i, x * scale + shift, i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        xt = x.t().contiguous()
        y = torch.empty_like(xt)
        affine[(triton.cdiv(y.numel(), 1024),)](xt, y, y.numel(), 3.0, -1.0, BLOCK=1024)
        return y
