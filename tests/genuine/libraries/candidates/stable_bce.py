# task: bce_logits
# style: the stable form with log1p from libdevice, broadcast of a weight that is one
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def bce_kernel(x_ptr, t_ptr, o_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = at < n
    x = tl.load(x_ptr + at, mask=m)
    t = tl.load(t_ptr + at, mask=m)
    loss = tl.maximum(x, 0.0) - x * t + libdevice.log1p(tl.exp(-tl.abs(x)))
    tl.store(o_ptr + at, loss, mask=m)


class ModelNew(nn.Module):
    def forward(self, x, target):
        o = torch.empty_like(x)
        bce_kernel[(triton.cdiv(x.numel(), 512),)](x, target, o, x.numel(), BLOCK=512)
        return o
