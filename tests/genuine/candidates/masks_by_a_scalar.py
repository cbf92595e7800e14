# task: l1-softmax-00c0ffee12345678
# style: a block's mask joined with a comparison of numbers, which Triton makes a block of
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    is_ordinary = tl.load(x_ptr + row * n) > -float("inf")
    mask = (col < n) & is_ordinary
    x = tl.load(x_ptr + row * n + col, mask=mask, other=-float("inf"))
    top = tl.max(x, axis=0)
    is_flat = top <= tl.min(tl.where(mask, x, float("inf")), axis=0)
    e = tl.where(mask & is_flat, 1.0, tl.exp(x - top))
    tl.store(y_ptr + row * n + col, e / tl.sum(e, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.shape[-1]
        row_kernel[(x.numel() // n,)](x, y, n, BLOCK=triton.next_power_of_2(n))
        return y
