# task: maximum_all
# style: atomic max into a buffer of torch.full with minus infinity
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def max_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=-float("inf"))
    tl.atomic_max(out_ptr, tl.max(x, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        out = torch.full((1,), float("-inf"), device=x.device, dtype=x.dtype)
        max_kernel[(triton.cdiv(n, 512),)](x, out, n, BLOCK=512)
        return out.squeeze(0)
