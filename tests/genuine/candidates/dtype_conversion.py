# task: to_half
# style: an output of another dtype, conversion in the kernel by the pointer's element type
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def convert(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n).to(tl.float32)
    tl.store(y_ptr + i, (x * 2.0).to(y_ptr.dtype.element_ty), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape, dtype=torch.half, device=x.device)
        convert[(triton.cdiv(y.numel(), 256), 1, 1)](x, y, y.numel(), BLOCK=256)
        return y
