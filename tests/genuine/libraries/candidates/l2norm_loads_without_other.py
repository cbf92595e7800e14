# task: l2_norm
# style: a row loaded without other and made zero by where before it is summed
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def l2(x, y, stride, n, eps, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    mask = c < n
    v = tl.load(x + r * stride + c, mask=mask)
    total = tl.sum(tl.where(mask, v * v, 0.0), axis=0)
    tl.store(y + r * stride + c, v * tl.rsqrt(total + eps), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        l2[(x.shape[0],)](x, y, x.stride(0), x.shape[1], 1e-6, triton.next_power_of_2(x.shape[1]))
        return y
