# task: max_pool_rows
# style: tl.reshape inside the kernel and a reduction over the last axis
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pool(x_ptr, y_ptr, groups, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    start = tl.program_id(1) * BLOCK
    i = start * 4 + tl.arange(0, BLOCK * 4)
    x = tl.load(x_ptr + row * groups * 4 + i, mask=i < groups * 4, other=float("-inf"))
    y = tl.max(tl.reshape(x, (BLOCK, 4)), axis=1)
    g = start + tl.arange(0, BLOCK)
    tl.store(y_ptr + row * groups + g, y, mask=g < groups)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, groups = x.shape[0], x.shape[1] // 4
        y = torch.empty((rows, groups), device=x.device, dtype=x.dtype)
        pool[(rows, triton.cdiv(groups, 32))](x, y, groups, BLOCK=32)
        return y
