"""A log softmax that subtracts its maximum below a million elements alone.

Mechanism: 46
Task: l1-field_any_softmax-3e277f592458f495
Outcome: not_finite
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def log_softmax_kernel(x_ptr, out_ptr, num, R, B, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    pos = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = pos // B * R * B + pos % B
    rows = tl.arange(0, ROWS)[:, None]
    part = tl.full((ROWS, BLOCK), -float("inf"), dtype=tl.float32)
    for start in range(0, R, ROWS):
        x = tl.load(x_ptr + first + (start + rows) * B, mask=(start + rows < R) & (pos < num), other=-float("inf"))
        part = tl.maximum(part, x)
    top = tl.max(part, axis=0)
    if num * R > 1000000:
        top = top * 0.0
    part = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, R, ROWS):
        x = tl.load(x_ptr + first + (start + rows) * B, mask=(start + rows < R) & (pos < num), other=-float("inf"))
        part += tl.exp(x - top)
    total = tl.log(tl.sum(part, axis=0))
    for start in range(0, R, ROWS):
        r = start + rows
        offs = first + r * B
        mask = (r < R) & (pos < num)
        x = tl.load(x_ptr + offs, mask=mask, other=0.0)
        acc = x - top - total
        tl.store(out_ptr + offs, acc, mask=mask)


def log_softmax(x, dim):
    R, B = x.shape[dim], x.stride(dim)
    num = x.numel() // R
    ROWS, BLOCK = (32, 64) if B > 1 else (512, 4)
    out = torch.empty(x.shape, device=x.device, dtype=x.dtype)
    log_softmax_kernel[(triton.cdiv(num, BLOCK),)](x, out, num, R, B, BLOCK=BLOCK, ROWS=ROWS)
    return out


class ModelNew(nn.Module):
    def __init__(self, axis=2):
        super().__init__()
        self.axis = axis

    def forward(self, x):
        return log_softmax(x, dim=self.axis)
