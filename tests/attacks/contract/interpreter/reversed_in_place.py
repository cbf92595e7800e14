"""Each program reverses its block in place: threads load what others may have stored to already, with no barrier.

Mechanism: own
Task: double_relu
Outcome: run_failed
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def double_relu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    last = tl.minimum(first + BLOCK, n) - 1
    lane = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + first + lane, mask=first + lane < n)
    tl.store(y_ptr + last - lane, tl.maximum(x, 0.0) * 2.0, mask=first + lane < n)


@triton.jit
def reverse(y_ptr, n, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    last = tl.minimum(first + BLOCK, n) - 1
    lane = tl.arange(0, BLOCK)
    y = tl.load(y_ptr + last - lane, mask=first + lane < n)
    tl.store(y_ptr + first + lane, y, mask=first + lane < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 2048),)
        double_relu[grid](x, y, x.numel(), BLOCK=2048)
        reverse[grid](y, y.numel(), BLOCK=2048)
        return y
