# task: silu
# style: clones the input and works in place on the copy
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu_in_place(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, x * tl.sigmoid(x), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.clone()
        silu_in_place[(triton.cdiv(y.numel(), 1024),)](y, y.numel(), BLOCK=1024)
        return y
