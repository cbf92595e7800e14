# task: half_silu
# style: a dtype that a helper takes without annotation and reads by its .value, as compiled code has it
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def narrow(x, dtype):
    return x.to(dtype.value)


@triton.jit
def silu_kernel(x_ptr, o_ptr, n, DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(o_ptr + at, narrow(x * tl.sigmoid(x), DTYPE), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty_like(x)
        silu_kernel[(triton.cdiv(x.numel(), 512),)](x, o, x.numel(), DTYPE=tl.float16, BLOCK=512)
        return o
