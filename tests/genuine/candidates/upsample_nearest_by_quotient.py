# task: upsample_nearest
# style: coordinates of the source by quotients in float32, one block of a row a program
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def upsample(x_ptr, y_ptr, H, W, S: tl.constexpr, BLOCK: tl.constexpr):
    plane, oh = tl.program_id(0) // (S * H), tl.program_id(0) % (S * H)
    ow = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    h, w = (oh / S).to(tl.int32), (ow / S).to(tl.int32)
    inside = ow < S * W
    value = tl.load(x_ptr + (plane * H + h) * W + w, mask=inside)
    tl.store(y_ptr + (plane * S * H + oh) * S * W + ow, value, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        b, c, h, w = x.shape
        y = torch.empty((b, c, 2 * h, 2 * w), device=x.device, dtype=x.dtype)
        upsample[(b * c * 2 * h, triton.cdiv(2 * w, 64))](x, y, h, w, S=2, BLOCK=64)
        return y
