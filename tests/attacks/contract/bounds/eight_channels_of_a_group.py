"""Eight channels of a group are normalised, as many as are declared: more of them are left as memory is.

Mechanism: own
Task: group_norm_of_many
Outcome: not_finite
Stage: full
Also: wrong_values@full, output_not_written@full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def group_norm(x_ptr, w_ptr, b_ptr, y_ptr, groups, channels, length, eps, CHANNELS: tl.constexpr, BLOCK: tl.constexpr):
    group = tl.program_id(0)
    first = group * channels * length
    channel = tl.arange(0, CHANNELS)[:, None]
    total = tl.zeros((CHANNELS, BLOCK), tl.float32)
    for start in range(0, length, BLOCK):
        at = start + tl.arange(0, BLOCK)[None, :]
        total += tl.load(x_ptr + first + channel * length + at, mask=(channel < channels) & (at < length), other=0.0)
    mean = tl.sum(tl.sum(total, 1), 0) / (channels * length)
    squares = tl.zeros((CHANNELS, BLOCK), tl.float32)
    for start in range(0, length, BLOCK):
        at = start + tl.arange(0, BLOCK)[None, :]
        mask = (channel < channels) & (at < length)
        x = tl.load(x_ptr + first + channel * length + at, mask=mask, other=0.0)
        squares += tl.where(mask, (x - mean) * (x - mean), 0.0)
    scale = tl.rsqrt(tl.sum(tl.sum(squares, 1), 0) / (channels * length) + eps)
    weights = (group % groups) * channels + channel
    w = tl.load(w_ptr + weights, mask=channel < channels, other=0.0)
    b = tl.load(b_ptr + weights, mask=channel < channels, other=0.0)
    for start in range(0, length, BLOCK):
        at = start + tl.arange(0, BLOCK)[None, :]
        mask = (channel < channels) & (at < length)
        x = tl.load(x_ptr + first + channel * length + at, mask=mask, other=0.0)
        tl.store(y_ptr + first + channel * length + at, (x - mean) * scale * w + b, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        y = torch.empty_like(x)
        groups = self.norm.num_groups
        channels, length = x.shape[1] // groups, x.shape[2]
        group_norm[(x.shape[0] * groups,)](
            x, self.norm.weight, self.norm.bias, y, groups, channels, length, self.norm.eps, CHANNELS=8, BLOCK=128
        )
        return y
