# task: masked_scaled_softmax
# style: a boolean mask that is broadcast over heads, read as int8, a finite fill value
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_masked_softmax(x_ptr, mask_ptr, y_ptr, scale, heads, length, BLOCK: tl.constexpr):
    q = tl.program_id(0)
    bh = tl.program_id(1)
    b = bh // heads
    c = tl.arange(0, BLOCK)
    ok = c < length
    x = tl.load(x_ptr + (bh * length + q) * length + c, mask=ok, other=0.0) * scale
    m = tl.load(mask_ptr + (b * length + q) * length + c, mask=ok, other=1)
    x = tl.where(m != 0, -10000.0, x)
    x = tl.where(ok, x, -float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + (bh * length + q) * length + c, e / tl.sum(e, axis=0), mask=ok)


class ModelNew(nn.Module):
    def forward(self, x, mask):
        b, h, l, _ = x.shape
        y = torch.empty_like(x)
        scaled_masked_softmax[(l, b * h)](x, mask, y, 0.5, h, l, BLOCK=triton.next_power_of_2(l))
        return y
