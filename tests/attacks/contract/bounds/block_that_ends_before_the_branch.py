"""Rows of up to 4,096 columns take one block, and blocks end at 2,048: 5,000 are declared.

Mechanism: own
Task: softmax_of_5000
Outcome: not_finite
Stage: full
Also: wrong_values@full, output_not_written@full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_in_a_loop(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    highest = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
        higher = tl.maximum(highest, tl.max(x, 0))
        total = total * tl.exp(highest - higher) + tl.sum(tl.exp(x - higher), 0)
        highest = higher
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
        tl.store(y_ptr + row * columns + at, tl.exp(x - highest) / total, mask=at < columns)


@triton.jit
def softmax_of_a_block(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        rows, columns = x.shape
        if columns <= 4096:
            softmax_of_a_block[(rows,)](x, y, columns, BLOCK=min(triton.next_power_of_2(columns), 2048))
        else:
            softmax_in_a_loop[(rows,)](x, y, columns, BLOCK=1024)
        return y
