# task: softmax
# style: in place, loaded as a line and stored as a square after reductions of all that was loaded
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(y_ptr, columns, WIDE: tl.constexpr, SIDE: tl.constexpr):
    row = y_ptr + tl.program_id(0) * columns
    line = tl.arange(0, WIDE * SIDE)
    x = tl.load(row + line, mask=line < columns, other=-float("inf"))
    x = tl.exp(x - tl.max(x, 0))
    square = tl.reshape(x / tl.sum(x, 0), (SIDE, WIDE))
    at = tl.arange(0, SIDE)[:, None] * WIDE + tl.arange(0, WIDE)[None, :]
    tl.store(row + at, square, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.clone()
        side = 8
        wide = triton.next_power_of_2(triton.cdiv(y.shape[1], side))
        softmax_kernel[(y.shape[0],)](y, y.shape[1], WIDE=wide, SIDE=side)
        return y
