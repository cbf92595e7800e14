# task: upsample_nearest
# style: a flat grid, and the source's coordinates by a scale that is an argument, as PyTorch computes them
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def upsample(x_ptr, y_ptr, total, H, W, OH, OW, scale_h, scale_w, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ow, oh, plane = at % OW, at // OW % OH, at // (OW * OH)
    h = tl.minimum(tl.floor(oh.to(tl.float32) * scale_h).to(tl.int32), H - 1)
    w = tl.minimum(tl.floor(ow.to(tl.float32) * scale_w).to(tl.int32), W - 1)
    value = tl.load(x_ptr + (plane * H + h) * W + w, mask=at < total)
    tl.store(y_ptr + at, value, mask=at < total)


class ModelNew(nn.Module):
    def forward(self, x):
        b, c, h, w = x.shape
        y = torch.empty((b, c, 2 * h, 2 * w), device=x.device, dtype=x.dtype)
        n = y.numel()
        upsample[(triton.cdiv(n, 512),)](x, y, n, h, w, 2 * h, 2 * w, h / (2 * h), w / (2 * w), BLOCK=512)
        return y
