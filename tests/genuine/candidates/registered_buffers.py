# task: gain_and_offset
# style: a registered buffer and a one-element parameter that the kernel loads
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gain_kernel(x_ptr, gain_ptr, offset_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gain = tl.load(gain_ptr)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols)
    offset = tl.load(offset_ptr + c, mask=c < cols)
    tl.store(y_ptr + row * cols + c, x * gain + offset, mask=c < cols)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("offset", torch.linspace(-1.0, 1.0, size))
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty_like(x)
        gain_kernel[(rows, triton.cdiv(cols, 256))](x, self.gain, self.offset, y, cols, BLOCK=256)
        return y
