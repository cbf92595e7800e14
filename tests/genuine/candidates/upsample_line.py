# task: upsample_line
# style: one channel along a grid's second axis, its neighbours by coordinates in float32
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def upsample(x_ptr, y_ptr, length, scale, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = o < 2 * length
    s = tl.maximum((o + 0.5) * scale - 0.5, 0.0)
    low = tl.floor(s).to(tl.int32)
    x_ptr += tl.program_id(1) * length
    left = tl.load(x_ptr + low, mask=inside)
    right = tl.load(x_ptr + tl.minimum(low + 1, length - 1), mask=inside)
    f = s - low
    tl.store(y_ptr + tl.program_id(1) * 2 * length + o, left + (right - left) * f, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        b, c, n = x.shape
        y = torch.empty((b, c, 2 * n), device=x.device, dtype=x.dtype)
        upsample[(triton.cdiv(2 * n, 512), b * c)](x, y, n, 0.5, BLOCK=512)
        return y
