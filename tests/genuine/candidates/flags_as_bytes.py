# task: greater
# style: truth values as bytes, which the host converts
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def greater_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    y = tl.load(y_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, ((x > y) & (y > 0)).to(tl.int8), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty(x.shape, dtype=torch.int8, device=x.device)
        greater_kernel[(triton.cdiv(x.numel(), 512),)](x, y, out, x.numel(), BLOCK=512)
        return out.to(torch.bool)
