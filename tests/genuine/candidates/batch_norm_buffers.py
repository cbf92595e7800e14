# task: batch_norm
# style: registered buffers of a submodule as kernel arguments; the scale is folded by a first kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fold_kernel(mean, var, weight, bias, scale, shift, channels, eps, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    mask = c < channels
    s = tl.load(weight + c, mask=mask) * tl.rsqrt(tl.load(var + c, mask=mask, other=1.0) + eps)
    tl.store(scale + c, s, mask=mask)
    tl.store(shift + c, tl.load(bias + c, mask=mask) - tl.load(mean + c, mask=mask) * s, mask=mask)


@triton.jit
def apply_kernel(x, scale, shift, y, channels, length, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    c = plane % channels
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = plane * length + i
    v = tl.load(x + at, mask=i < length) * tl.load(scale + c) + tl.load(shift + c)
    tl.store(y + at, tl.maximum(v, 0.0), mask=i < length)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm1d(channels)
        self.eval()

    def forward(self, x):
        batch, channels, length = x.shape
        scale = torch.empty(channels, device=x.device, dtype=torch.float32)
        shift = torch.empty_like(scale)
        y = torch.empty_like(x)
        n = self.norm
        fold_kernel[(1,)](
            n.running_mean, n.running_var, n.weight, n.bias, scale, shift, channels, n.eps,
            BLOCK=triton.next_power_of_2(channels),
        )
        apply_kernel[(batch * channels, triton.cdiv(length, 128))](x, scale, shift, y, channels, length, BLOCK=128)
        return y
