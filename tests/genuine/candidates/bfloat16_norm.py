# task: rms_norm_bfloat16
# style: bfloat16 in and out, several rows a program, float32 inside
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rms_kernel(x_ptr, w_ptr, y_ptr, rows, n, eps, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)[:, None]
    c = tl.arange(0, BC)[None, :]
    mask = (r < rows) & (c < n)
    x = tl.load(x_ptr + r * n + c, mask=mask, other=0.0).to(tl.float32)
    scale = tl.math.rsqrt(tl.sum(x * x, axis=1, keep_dims=True) / n + eps)
    w = tl.load(w_ptr + c, mask=c < n, other=0.0)
    tl.store(y_ptr + r * n + c, (x * scale).to(w.dtype) * w, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size, dtype=torch.bfloat16))
        self.eps = 1e-6

    def forward(self, x):
        rows, n = x.shape
        y = torch.empty_like(x)
        rms_kernel[(triton.cdiv(rows, 4),)](x, self.weight, y, rows, n, self.eps, BR=4, BC=triton.next_power_of_2(n))
        return y
