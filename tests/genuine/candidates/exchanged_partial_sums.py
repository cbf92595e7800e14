# task: row_sum
# style: float values handed over by atomic_xchg
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_sum(x_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    tl.atomic_xchg(y_ptr + row, tl.sum(total))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty(rows, device=x.device, dtype=torch.float32)
        row_sum[(rows,)](x, y, cols, BLOCK=256)
        return y
