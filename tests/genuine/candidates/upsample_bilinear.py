# task: upsample_bilinear
# style: four neighbours by coordinates in float32, weighted by what is behind the point
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def source(o, scale, size):
    s = tl.maximum((o.to(tl.float32) + 0.5) * scale - 0.5, 0.0)
    low = tl.minimum(s.to(tl.int32), size - 1)
    return low, tl.minimum(low + 1, size - 1), s - low.to(tl.float32)


@triton.jit
def upsample(x_ptr, y_ptr, total, H, W, OH, OW, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = at < total
    h0, h1, fh = source(at // OW % OH, scale, H)
    w0, w1, fw = source(at % OW, scale, W)
    base = x_ptr + at // (OW * OH) * H * W
    upper = tl.load(base + h0 * W + w0, mask=ok) * (1.0 - fw) + tl.load(base + h0 * W + w1, mask=ok) * fw
    lower = tl.load(base + h1 * W + w0, mask=ok) * (1.0 - fw) + tl.load(base + h1 * W + w1, mask=ok) * fw
    tl.store(y_ptr + at, upper * (1.0 - fh) + lower * fh, mask=ok)


class ModelNew(nn.Module):
    def forward(self, x):
        b, c, h, w = x.shape
        y = torch.empty((b, c, 2 * h, 2 * w), device=x.device, dtype=x.dtype)
        n = y.numel()
        upsample[(triton.cdiv(n, 256),)](x, y, n, h, w, 2 * h, 2 * w, 0.5, BLOCK=256)
        return y
