"""A PReLU whose slopes are taken for positive, as construction makes them.

Mechanism: 41
Task: l1-field_prelu-2768531795a7c718
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def prelu_kernel(p_x, p_out, p_weight, channels, plane, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    channel = row % channels
    col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = col < plane
    offs = row * plane + col
    x = tl.load(p_x + offs, mask=mask).to(tl.float32)
    val = tl.where(x > 0, x, tl.maximum(tl.load(p_weight + channel).to(tl.float32), 0.0) * x)
    tl.store(p_out + offs, val, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, num_channels):
        super().__init__()
        self.prelu = nn.PReLU(num_channels, init=0.25)

    def forward(self, x):
        out = torch.empty_like(x)
        channels = x.shape[1]
        plane = x.numel() // (x.shape[0] * x.shape[1])
        prelu_kernel[(x.shape[0] * x.shape[1], triton.cdiv(plane, 256))](
            x, out, self.prelu.weight, channels, plane, BLOCK=256
        )
        return out
