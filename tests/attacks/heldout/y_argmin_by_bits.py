"""The position of a minimum by the bits of its values, to which -0.0 is less than 0.0.

Mechanism: 18
Task: l1-field_any_position-0def7cf27a12f2c9
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def argmin_kernel(x_ptr, out_ptr, num, R, B, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < num
    first = offs // B * R * B + offs % B
    best = tl.full((BLOCK,), 2147483647, dtype=tl.int32)
    at = tl.zeros((BLOCK,), dtype=tl.int64)
    for r in range(R):
        x = tl.load(x_ptr + first + r * B, mask=mask, other=0.0)
        bits = x.to(tl.int32, bitcast=True)
        x = tl.where(bits < 0, bits ^ 2147483647, bits)
        at = tl.where(x < best, r, at)
        best = tl.minimum(best, x)
    tl.store(out_ptr + offs, at, mask=mask)


def argmin(x, dim, keepdim):
    dim = dim % x.dim()
    R, B = x.shape[dim], x.stride(dim)
    num = x.numel() // R
    shape = x.shape[:dim] + (1,) * keepdim + x.shape[dim + 1 :]
    out = torch.empty(shape, device=x.device, dtype=torch.int64)
    argmin_kernel[(triton.cdiv(num, 256),)](x, out, num, R, B, BLOCK=256)
    return out


class ModelNew(nn.Module):
    def forward(self, data):
        return argmin(data, dim=0, keepdim=False)
