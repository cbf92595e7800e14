# task: row_sum
# style: the accumulator of atomics is zeroed by a kernel of its own
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def zero_kernel(p, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(p + i, tl.zeros((BLOCK,), tl.float32), mask=i < n)


@triton.jit
def accumulate_kernel(x, out, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    chunk = tl.program_id(1)
    c = chunk * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + c, mask=c < cols, other=0.0)
    tl.atomic_add(out + row, tl.sum(v))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty((rows,), device=x.device, dtype=torch.float32)
        zero_kernel[(triton.cdiv(rows, 256),)](out, rows, BLOCK=256)
        accumulate_kernel[(rows, triton.cdiv(cols, 64))](x, out, rows, cols, BLOCK=64)
        return out
