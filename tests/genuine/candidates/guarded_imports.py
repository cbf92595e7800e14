# task: special
# style: imports that are tried, constants that depend on the device
import torch
import torch.nn as nn
import triton
import triton.language as tl

try:
    from triton.language.extra import libdevice
except ImportError:
    from triton.language.extra.cuda import libdevice

IS_HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 9
BLOCK_SIZE = 1024 if IS_HOPPER else 512


@triton.jit
def special_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    y = libdevice.expm1(x) * libdevice.erf(x) + libdevice.atan(x) + libdevice.pow(tl.abs(x) + 0.1, 1.5)
    tl.store(y_ptr + i, y, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        special_kernel[(triton.cdiv(x.numel(), BLOCK_SIZE),)](x, y, x.numel(), BLOCK=BLOCK_SIZE)
        return y
