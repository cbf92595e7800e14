# task: four_axes_scale
# style: a branch that no constexpr reaches raises, static_assert beside it, a mode by name
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def apply(x, s, MODE: tl.constexpr):
    if MODE == "mul":
        return x * s
    elif MODE == "add":
        return x + s
    else:
        tl.static_assert(False, "unknown mode")


@triton.jit
def scale_kernel(x, s, o, n, H, INNER, MODE: tl.constexpr, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK % 32 == 0)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = at < n
    f = tl.load(s + (at // INNER) % H, mask=m)
    tl.store(o + at, apply(tl.load(x + at, mask=m), f, MODE), mask=m)


class ModelNew(nn.Module):
    def forward(self, x, s):
        o = torch.empty_like(x)
        n = x.numel()
        scale_kernel[(triton.cdiv(n, 256),)](x, s, o, n, x.shape[1], x.shape[2] * x.shape[3], "mul", BLOCK=256)
        return o
