# task: silu
# style: block sizes given as a constexpr tuple
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu(x_ptr, y_ptr, n, BLOCKS: tl.constexpr):
    BLOCK: tl.constexpr = BLOCKS[0]
    PARTS: tl.constexpr = BLOCKS[1]
    for part in tl.static_range(PARTS):
        at = (tl.program_id(0) * PARTS + part) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n)
        tl.store(y_ptr + at, x * tl.sigmoid(x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        silu[(triton.cdiv(n, 1024),)](x, y, n, BLOCKS=(256, 4))
        return y
