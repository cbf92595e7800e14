# task: row_sum
# style: two kernels between which the host chooses by the length of a row
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def single(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    tl.store(out_ptr + row, tl.sum(tl.load(x_ptr + row * n + c, mask=c < n, other=0.0), 0))


@triton.jit
def looped(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for s in range(0, n, BLOCK):
        c = s + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + row * n + c, mask=c < n, other=0.0)
    tl.store(out_ptr + row, tl.sum(acc, 0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        if n <= 256:
            single[(rows,)](x, out, n, BLOCK=triton.next_power_of_2(n))
        else:
            looped[(rows,)](x, out, n, BLOCK=256)
        return out
