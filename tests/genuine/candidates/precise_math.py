# task: special
# style: tl.math and tl.extra.cuda.libdevice by their full paths, div_rn
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def special_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    power = tl.math.exp(1.5 * tl.math.log(tl.math.abs(x) + 0.1))
    y = tl.extra.cuda.libdevice.expm1(x) * tl.math.erf(x) + tl.extra.cuda.libdevice.atan2(x, 1.0) + power
    tl.store(y_ptr + i, tl.math.div_rn(y, 1.0), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        special_kernel[(triton.cdiv(x.numel(), 512),)](x, y, x.numel(), BLOCK=512)
        return y
