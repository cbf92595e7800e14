# task: four_axes_scale
# style: a grid of four entries of which Triton reads three and the last is 1
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_heads(x, s, o, H, L, D: tl.constexpr):
    b, h, l = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = ((b * H + h) * L + l) * D + tl.arange(0, D)
    tl.store(o + at, tl.load(x + at) * tl.load(s + h))


class ModelNew(nn.Module):
    def forward(self, x, s):
        B, H, L, D = x.shape
        o = torch.empty_like(x)
        grid = (B, H, L, 1)
        scale_heads[grid](x, s, o, H, L, D)
        return o
