# task: triangular_product
# style: blocks of zeros are neither read nor multiplied
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def upper_product(a_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.program_id(1)
    rows = row * BLOCK + tl.arange(0, BLOCK)
    columns = column * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for block in range(row, column + 1):
        inner = block * BLOCK + tl.arange(0, BLOCK)
        a_mask = (rows[:, None] < n) & (inner[None, :] < n)
        b_mask = (inner[:, None] < n) & (columns[None, :] < n)
        a = tl.load(a_ptr + rows[:, None] * n + inner[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + columns[None, :], mask=b_mask, other=0.0)
        total += tl.dot(a, b, input_precision="ieee")
    total = tl.where(rows[:, None] <= columns[None, :], total, 0.0)
    mask = (rows[:, None] < n) & (columns[None, :] < n)
    tl.store(out_ptr + rows[:, None] * n + columns[None, :], total, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a, b):
        n = a.shape[0]
        out = torch.empty_like(a)
        blocks = triton.cdiv(n, 32)
        upper_product[(blocks, blocks)](a, b, out, n, BLOCK=32)
        return out
