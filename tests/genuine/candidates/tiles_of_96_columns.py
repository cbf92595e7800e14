# task: gelu
# style: tiles of 96 columns in blocks of 128
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gelu(x_ptr, y_ptr, columns, TILE: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    at = tl.program_id(1) * TILE + lane
    mask = (lane < TILE) & (at < columns)
    x = tl.load(x_ptr + tl.program_id(0) * columns + at, mask=mask, other=0.0)
    y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    tl.store(y_ptr + tl.program_id(0) * columns + at, y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        rows, columns = x.shape
        tiles = triton.cdiv(columns, 96)
        gelu[(rows, tiles)](x, y, columns, TILE=96, BLOCK=128)
        return y
