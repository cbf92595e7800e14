# task: transpose
# style: a transposed view of the result is written row by row, strides from the view
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_rows(x, o, sx0, sx1, so0, so1, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + r * sx0 + c * sx1, mask=c < n, other=0.0)
    tl.store(o + r * so0 + c * so1, v * 2.0, mask=c < n)


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty((x.shape[1], x.shape[0]), device=x.device, dtype=x.dtype)
        view = o.t()
        copy_rows[(x.shape[0],)](x, view, *x.stride(), *view.stride(), x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return o
