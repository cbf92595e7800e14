# task: greater
# style: a boolean result, logical operators on masks
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def greater_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(x_ptr + i, mask=inside, other=0.0)
    y = tl.load(y_ptr + i, mask=inside, other=0.0)
    tl.store(out_ptr + i, (x > y) and (y > 0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty(x.shape, dtype=torch.bool, device=x.device)
        greater_kernel[(triton.cdiv(x.numel(), 512),)](x, y, out, x.numel(), BLOCK=512)
        return out
