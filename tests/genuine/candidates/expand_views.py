# task: outer_broadcast
# style: stride-0 views by expand; libdevice for tanh
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def add_tanh(x_ptr, y_ptr, out_ptr, rows, cols, sxr, sxc, syr, syc, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + r * sxr + c * sxc, mask=c < cols)
    y = tl.load(y_ptr + r * syr + c * syc, mask=c < cols)
    tl.store(out_ptr + r * cols + c, libdevice.tanh(x + y), mask=c < cols)


class ModelNew(nn.Module):
    def forward(self, x, y):
        rows, cols = x.shape[0], y.shape[0]
        xe = x.unsqueeze(1).expand(rows, cols)
        ye = y[None, :].expand(rows, cols)
        out = torch.empty((rows, cols), device=x.device, dtype=x.dtype)
        add_tanh[(rows, triton.cdiv(cols, 128))](xe, ye, out, rows, cols, *xe.stride(), *ye.stride(), BLOCK=128)
        return out
