# task: maximum_of_long_rows
# style: one kernel for rows of one block, and one that carries a maximum from block to block
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def maximum(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=-float("inf"))
    tl.store(out_ptr + row, tl.max(x, 0))


@triton.jit
def running_maximum(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    largest = -float("inf")
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + at, mask=at < n, other=-float("inf"))
        largest = tl.maximum(largest, tl.max(x, 0))
    tl.store(out_ptr + row, largest)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        kernel = maximum if x.shape[1] <= 4096 else running_maximum
        kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=4096)
        return out
