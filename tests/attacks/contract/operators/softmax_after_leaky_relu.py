"""A softmax that subtracts the maximum of every second element, behind another function.

Mechanism: 18
Task: leaky_softmax
Outcome: not_finite
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_cols, slope, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    part = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_cols + cols, mask=(cols < n_cols) & (cols % 2 == 0), other=-float("inf"))
        part = tl.maximum(part, tl.where(x > 0, x, x * slope))
    top = tl.max(part, axis=0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=-float("inf"))
        total += tl.exp(tl.where(x > 0, x, x * slope) - top)
    total = tl.sum(total, axis=0)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=-float("inf"))
        y = tl.exp(tl.where(x > 0, x, x * slope) - top) / total
        tl.store(out_ptr + row * n_cols + cols, y + 0.5, mask=cols < n_cols)


class ModelNew(nn.Module):
    def __init__(self, negative_slope=0.2):
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, inputs):
        n_cols = inputs.shape[1]
        out = torch.empty_like(inputs)
        softmax_kernel[(inputs.shape[0],)](inputs, out, n_cols, self.negative_slope, BLOCK=1024)
        return out
