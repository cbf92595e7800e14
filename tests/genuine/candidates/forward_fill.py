# task: forward_fill
# style: forward fill by a scan of each block, the last value carried on
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def later(a, b):
    return tl.where(b != 0.0, b, a)


@triton.jit
def forward_fill(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    carried = 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + at, mask=at < n, other=0.0)
        filled = tl.associative_scan(x, 0, later)
        tl.store(y_ptr + row * n + at, tl.where(filled != 0.0, filled, carried), mask=at < n)
        last = tl.sum(tl.where(tl.arange(0, BLOCK) == BLOCK - 1, filled, 0.0), 0)
        carried = tl.where(last != 0.0, last, carried)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        forward_fill[(x.shape[0],)](x, y, x.shape[1], BLOCK=512)
        return y
