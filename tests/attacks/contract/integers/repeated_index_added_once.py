"""Rows are added by a load and a store: of two sources with one index a GPU keeps one, and which one is chance.

Mechanism: own
Task: index_add
Outcome: run_failed
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0.0), mask=at < n)


@triton.jit
def add_rows(x_ptr, i_ptr, s_ptr, o_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    of = tl.load(i_ptr + row)
    x = tl.load(x_ptr + of * columns + at, mask=at < columns, other=0.0)
    s = tl.load(s_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.store(o_ptr + of * columns + at, x + s, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x, index, source):
        out = torch.empty_like(x)
        copy[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        block = triton.next_power_of_2(x.shape[1])
        add_rows[(index.shape[0],)](x, index, source, out, x.shape[1], BLOCK=block)
        return out
