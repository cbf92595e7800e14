"""Bins of partial sums are shared by programs of different blocks and added to in the scope of a block.

Mechanism: own
Task: grand_total
Outcome: run_failed
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bins(x_ptr, b_ptr, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.atomic_add(b_ptr + at % BINS, x, mask=at < n, sem="relaxed", scope="cta")


@triton.jit
def finish(b_ptr, o_ptr, BINS: tl.constexpr):
    tl.store(o_ptr, tl.sum(tl.load(b_ptr + tl.arange(0, BINS)), 0))


class ModelNew(nn.Module):
    def forward(self, x):
        shared = torch.zeros(64, device=x.device, dtype=x.dtype)
        out = torch.empty((), device=x.device, dtype=x.dtype)
        bins[(triton.cdiv(x.numel(), 256),)](x, shared, x.numel(), BLOCK=256, BINS=64)
        finish[(1,)](shared, out, BINS=64)
        return out
