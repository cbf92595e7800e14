"""Each of eight lanes counts its steps in eight bits: 128 of them, of 2,050 of which half count, are negative.

Mechanism: own
Task: mean_of_steps
Outcome: wrong_values
Stage: full
Also: not_finite@full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_of_steps(x_ptr, mask_ptr, out_ptr, steps, width, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    count = tl.zeros((8,), tl.int8)
    for start in range(0, steps, STEPS):
        step = start + tl.arange(0, STEPS)
        kept = tl.load(mask_ptr + row * steps + step, mask=step < steps, other=0).to(tl.int8)
        mask = (step[:, None] < steps) & (at[None, :] < width)
        x = tl.load(x_ptr + (row * steps + step[:, None]) * width + at[None, :], mask=mask, other=0.0)
        total += tl.sum(x * kept[:, None].to(tl.float32), 0)
        count += tl.sum(tl.reshape(kept.to(tl.int32), (8, STEPS // 8)), 1).to(tl.int8)
    counted = tl.sum(count.to(tl.int32), 0).to(tl.float32)
    tl.store(out_ptr + row * width + at, total / tl.maximum(counted, 1.0), mask=at < width)


class ModelNew(nn.Module):
    def forward(self, x, mask):
        rows, steps, width = x.shape
        out = torch.empty((rows, width), device=x.device, dtype=x.dtype)
        mean_of_steps[(rows, triton.cdiv(width, 32))](x, mask, out, steps, width, STEPS=64, BLOCK=32)
        return out
