"""A maximum that begins at -1e12.

Mechanism: 18
Task: volume_pool
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def max_pool3d_kernel(
    x_ptr,
    out_ptr,
    num,
    D,
    H,
    W,
    OD,
    OH,
    OW,
    SD,
    SH,
    SW,
    PD,
    PH,
    PW,
    DD,
    DH,
    DW,
    KD: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < num
    ow = offs % OW
    oh = offs // OW % OH
    oz = offs // (OH * OW) % OD
    row = offs // (OD * OH * OW)
    acc = tl.full((BLOCK,), -1e12, dtype=tl.float32)
    for kz in range(KD):
        iz = oz * SD - PD + kz * DD
        for kh in range(KH):
            ih = oh * SH - PH + kh * DH
            for kw in range(KW):
                iw = ow * SW - PW + kw * DW
                x = tl.load(
                    x_ptr + ((row * D + iz) * H + ih) * W + iw,
                    mask=mask & (iz >= 0) & (iz < D) & (ih >= 0) & (ih < H) & (iw >= 0) & (iw < W),
                    other=-float("inf"),
                )
                acc = tl.maximum(acc, x)
    tl.store(out_ptr + offs, acc, mask=mask)


def max_pool3d(x, layer):
    N, C, D, H, W = x.shape
    sides = [
        n if isinstance(n, tuple) else (n,) * 3
        for n in (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
    ]
    (KD, KH, KW), (SD, SH, SW), (PD, PH, PW), (DD, DH, DW) = sides
    OD = (D + 2 * PD - DD * (KD - 1) - 1) // SD + 1
    OH = (H + 2 * PH - DH * (KH - 1) - 1) // SH + 1
    OW = (W + 2 * PW - DW * (KW - 1) - 1) // SW + 1
    num = N * C * OD * OH * OW
    out = torch.empty((N, C, OD, OH, OW), device=x.device, dtype=x.dtype)
    max_pool3d_kernel[(triton.cdiv(num, 512),)](
        x, out, num, D, H, W, OD, OH, OW, SD, SH, SW, PD, PH, PW, DD, DH, DW, KD=KD, KH=KH, KW=KW, BLOCK=512
    )
    return out


class ModelNew(nn.Module):
    def __init__(self, kernel_size, padding):
        super().__init__()
        self.pooling = nn.MaxPool3d(kernel_size, stride=3, padding=padding)

    def forward(self, inputs):
        return max_pool3d(inputs, self.pooling)
