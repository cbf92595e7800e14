# task: cumsum_long
# style: block sums, then the sums before each block added: three launches on one workspace
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def local(x, y, sums, n, blocks, BLOCK: tl.constexpr):
    r, b = tl.program_id(0), tl.program_id(1)
    at = b * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + r * n + at, mask=at < n, other=0.0)
    tl.store(y + r * n + at, tl.cumsum(v, 0), mask=at < n)
    tl.store(sums + r * blocks + b, tl.sum(v, 0))


@triton.jit
def prefix(sums, before, blocks, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    s = tl.load(sums + r * blocks + at, mask=at < blocks, other=0.0)
    tl.store(before + r * blocks + at, tl.cumsum(s, 0) - s, mask=at < blocks)


@triton.jit
def add(y, out, before, n, blocks, BLOCK: tl.constexpr):
    r, b = tl.program_id(0), tl.program_id(1)
    at = b * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(y + r * n + at, mask=at < n) + tl.load(before + r * blocks + b)
    tl.store(out + r * n + at, v, mask=at < n)


class ModelNew(nn.Module):
    BLOCK = 256

    def forward(self, x):
        rows, n = x.shape
        blocks = triton.cdiv(n, self.BLOCK)
        y, out = torch.empty_like(x), torch.empty_like(x)
        sums, before = torch.empty((2, rows, blocks), device=x.device, dtype=x.dtype).unbind(0)
        local[(rows, blocks)](x, y, sums, n, blocks, BLOCK=self.BLOCK)
        prefix[(rows,)](sums, before, blocks, BLOCK=triton.next_power_of_2(blocks))
        add[(rows, blocks)](y, out, before, n, blocks, BLOCK=self.BLOCK)
        return out
