# task: mean_of_rows
# style: one program a block of columns, a loop with loads without other that where makes zero
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def column_mean(x, o, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    acc = tl.zeros((BR, BC), tl.float32)
    for i in range(0, rows, BR):
        r = i + tl.arange(0, BR)
        ok = (r < rows)[:, None] & (c < cols)[None, :]
        v = tl.load(x + r[:, None] * cols + c[None, :], ok)
        acc += tl.where(ok, v, 0)
    tl.store(o + c, tl.sum(acc, axis=0) / rows, mask=c < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        o = torch.empty((cols,), device=x.device, dtype=x.dtype)
        column_mean[(triton.cdiv(cols, 32),)](x, o, rows, cols, 32, 32)
        return o
