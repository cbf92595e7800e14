# task: l1-layer_norm-1ab3ed96e3d33543
# style: a variance in one pass, as a difference of two means: exact unless the mean is tens of deviations
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(x_ptr, y_ptr, w_ptr, b_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    mask = col < n
    x = tl.load(x_ptr + row * n + col, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / n
    var = tl.sum(x * x, axis=0) / n - mean * mean
    y = (x - mean) / tl.sqrt(var + 1e-05)
    y = y * tl.load(w_ptr + col, mask=mask, other=0.0) + tl.load(b_ptr + col, mask=mask, other=0.0)
    tl.store(y_ptr + row * n + col, y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.ln = nn.LayerNorm(features, eps=1e-05)

    def forward(self, x):
        n = x.shape[-1]
        y = torch.empty_like(x)
        layer_norm_kernel[(x.numel() // n,)](x, y, self.ln.weight, self.ln.bias, n, BLOCK=triton.next_power_of_2(n))
        return y
