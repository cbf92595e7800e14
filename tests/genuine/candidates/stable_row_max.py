# task: row_max
# style: a running maximum in a block, reduced at the end; host code picks warps with functools and itertools
import functools

import torch
import torch.nn as nn
import triton
import triton.language as tl


@functools.lru_cache(maxsize=None)
def choose(n_cols: int):
    block = min(triton.next_power_of_2(n_cols), 128)
    return block, max(1, min(8, block // 32))


@triton.jit
def row_max_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    offs = tl.arange(0, BLOCK)
    while tl.min(offs, axis=0) < n_cols:
        x = tl.load(x_ptr + row * n_cols + offs, mask=offs < n_cols, other=float("-inf"))
        best = tl.maximum(best, x)
        offs += BLOCK
    tl.store(out_ptr + row, tl.max(best, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n_cols = x.shape
        out = torch.empty((rows,), device=x.device, dtype=x.dtype)
        block, warps = choose(n_cols)
        row_max_kernel[(rows,)](x, out, n_cols, BLOCK=block, num_warps=warps)
        return out
