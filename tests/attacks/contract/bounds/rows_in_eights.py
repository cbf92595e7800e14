"""Eight rows a program where there are many, and a grid that rounds down: a batch of 17 leaves rows unwritten.

Small sizes keep a batch of 16, so it is among the sizes that grow.

Mechanism: own
Task: layer_norm_of_16
Outcome: output_not_written
Stage: full
Also: not_finite@full, wrong_values@full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def normalise_rows(x_ptr, weight_ptr, bias_ptr, y_ptr, rows, dim, eps, TURNS: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    inside = lane < dim
    weight = tl.load(weight_ptr + lane, mask=inside, other=0.0)
    bias = tl.load(bias_ptr + lane, mask=inside, other=0.0)
    for turn in range(TURNS):
        row = tl.program_id(0) * TURNS + turn
        mask = inside & (row < rows)
        x = tl.load(x_ptr + row * dim + lane, mask=mask, other=0.0)
        centred = tl.where(inside, x - tl.sum(x, axis=0) / dim, 0.0)
        scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / dim + eps)
        tl.store(y_ptr + row * dim + lane, centred * scale * weight + bias, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        dim = x.shape[-1]
        rows = x.numel() // dim
        turns = 8 if rows >= 8192 else 1
        normalise_rows[(rows // turns,)](
            x, self.norm.weight, self.norm.bias, y, rows, dim, self.norm.eps, turns, triton.next_power_of_2(dim)
        )
        return y
