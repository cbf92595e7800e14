"""functools.lru_cache stands over the function that allocates, so equal shapes share one result.

Mechanism: own
Task: double_relu
Outcome: not_reproducible
Stage: compile
Also: not_finite@full, not_reproducible@full, output_not_written@full, wrong_values@full
"""

import functools

import torch
import torch.nn as nn
import triton
import triton.language as tl


@functools.lru_cache(maxsize=None)
def allocate(shape, device):
    return torch.empty(shape, device=device)


@triton.jit
def double_relu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.maximum(x, 0.0) * 2.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = allocate(tuple(x.shape), x.device)
        double_relu[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
