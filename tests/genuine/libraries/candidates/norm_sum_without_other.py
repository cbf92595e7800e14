# task: l2_norm
# style: squares of a row are summed where its masked lanes were loaded without other
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def l2(x, y, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + r * n + c, mask=c < n)
    tl.store(y + r * n + c, v / tl.sqrt(tl.sum(v * v, axis=0) + 1e-6), mask=c < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        l2[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
