# task: half_silu
# style: a dtype taken from a pointer inside the kernel and handed to a jit helper as an argument
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cast_silu(x, DTYPE: tl.constexpr):
    y = x.to(tl.float32)
    return (y * tl.sigmoid(y)).to(DTYPE)


@triton.jit
def silu_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(o_ptr + at, cast_silu(x, o_ptr.dtype.element_ty), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty_like(x)
        silu_kernel[(triton.cdiv(x.numel(), 1024),)](x, o, x.numel(), BLOCK=1024)
        return o
