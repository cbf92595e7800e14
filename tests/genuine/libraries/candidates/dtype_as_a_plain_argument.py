# task: half_silu
# style: tl.float32 as the value of a helper's argument that has no annotation
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def widen(x, compute_dtype):
    return x.to(compute_dtype)


@triton.jit
def silu_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = widen(tl.load(x_ptr + at, mask=at < n, other=0.0), tl.float32)
    y = x / (1.0 + tl.exp(-x))
    tl.store(o_ptr + at, widen(y, tl.float16) if o_ptr.dtype.element_ty == tl.float16 else y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty(x.shape, device=x.device, dtype=x.dtype)
        silu_kernel[(triton.cdiv(x.numel(), 256),)](x, o, x.numel(), BLOCK=256)
        return o
