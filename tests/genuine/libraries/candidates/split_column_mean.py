# task: mean_of_rows
# style: blocks of rows add their share of a column by atomics to a result of zeros
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def column_mean(x, o, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    v = tl.load(x + r[:, None] * cols + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < cols), other=0.0)
    tl.atomic_add(o + c, tl.sum(v, axis=0) / rows, mask=c < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        o = torch.zeros(cols, device=x.device, dtype=x.dtype)
        column_mean[(triton.cdiv(rows, 64), triton.cdiv(cols, 32))](x, o, rows, cols, BR=64, BC=32)
        return o
