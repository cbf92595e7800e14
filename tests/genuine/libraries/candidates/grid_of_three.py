# task: four_axes_scale
# style: three axes of a grid for four of the tensor, a helper for offsets, launch metadata by a function
import torch
import torch.nn as nn
import triton
import triton.language as tl


def _metadata(grid, kernel, args):
    return {"name": f"scale {grid}", "bytes": 8 * args["n"]}


@triton.jit
def offsets_of(b, h, l, H, L, D):
    return ((b * H + h) * L + l) * D


@triton.jit(launch_metadata=_metadata)
def scale_heads(x, s, o, n, H, L, D: tl.constexpr):
    b, h, l = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = offsets_of(b, h, l, H, L, D) + tl.arange(0, D)
    tl.store(o + at, tl.load(x + at) * tl.load(s + h))


class ModelNew(nn.Module):
    def forward(self, x, s):
        B, H, L, D = x.shape
        o = torch.empty_like(x)
        scale_heads[(B, H, L)](x, s, o, x.numel(), H, L, D)
        return o
