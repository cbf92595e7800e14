# task: where_clip
# style: tl.where, nested conditions, a conditional expression on a constexpr, a device assertion
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def where_kernel(x_ptr, y_ptr, out_ptr, n, SLOPE: tl.constexpr, CLIP: tl.constexpr, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK % 32 == 0)
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask, other=0.0)
    y = tl.load(y_ptr + i, mask=mask, other=0.0)
    tl.device_assert(n > 0, "nothing to do")
    upper = tl.minimum(x, y) if CLIP else x
    out = tl.where(x > 0, upper, SLOPE * x * y)
    tl.store(out_ptr + i, out, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        where_kernel[(triton.cdiv(x.numel(), 512),)](x, y, out, x.numel(), SLOPE=0.1, CLIP=True, BLOCK=512)
        return out
