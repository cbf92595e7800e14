# task: gain_and_offset
# style: a plain tensor attribute made in __init__ and moved in forward
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gain_kernel(x_ptr, gain_ptr, offset_ptr, y_ptr, n, cols, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask)
    y = x * tl.load(gain_ptr) + tl.load(offset_ptr + i % cols, mask=mask)
    tl.store(y_ptr + i, y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.offset = nn.Buffer(torch.linspace(-1.0, 1.0, size))
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, x):
        y = torch.empty_like(x)
        offset = self.offset.to(device=x.device, dtype=x.dtype)
        n = x.numel()
        gain_kernel[(triton.cdiv(n, 256),)](x, self.gain, offset, y, n, x.shape[1], BLOCK=256)
        return y
