# task: add
# style: one helper twice with the same constant, which is NaN
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def keep(values, mask, other: tl.constexpr):
    return tl.where(mask, values, other)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = keep(tl.load(x_ptr + at, mask=mask, other=0.0), mask, float("nan"))
    y = keep(tl.load(y_ptr + at, mask=mask, other=0.0), mask, float("nan"))
    tl.store(out_ptr + at, x + 0.5 * y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        out = torch.empty_like(x)
        n = out.numel()
        add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
        return out
