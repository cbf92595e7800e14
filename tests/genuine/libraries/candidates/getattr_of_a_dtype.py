# task: scaled_add
# style: the dtype by a name that a table holds, without logging
import torch
import torch.nn as nn
import triton
import triton.language as tl

NAMES = ("float32", "float16", "bfloat16", "float8_e4m3fn")
SUPPORTED = [getattr(torch, name, None) for name in NAMES]
TL_DTYPES = {getattr(torch, name): getattr(tl, name) for name in NAMES[:3]}


@triton.jit
def axpy(x_ptr, y_ptr, o_ptr, n, DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = at < n
    x = tl.load(x_ptr + at, mask=m).to(tl.float32)
    tl.store(o_ptr + at, (x * 2.0 + tl.load(y_ptr + at, mask=m)).to(DTYPE), mask=m)


class ModelNew(nn.Module):
    def forward(self, x, y):
        assert x.dtype in SUPPORTED, x.dtype
        o = torch.empty_like(x)
        axpy[(triton.cdiv(x.numel(), 512),)](x, y, o, x.numel(), DTYPE=TL_DTYPES[x.dtype], BLOCK=512)
        return o
