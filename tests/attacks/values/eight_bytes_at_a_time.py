"""Two floats are loaded as one integer of eight bytes, which no GPU does where a row begins at an odd element.

Mechanism: own
Task: l1-softmax-00c0ffee12345678
Outcome: run_failed
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(p_x, p_y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    half = n // 2
    col = tl.arange(0, BLOCK)
    mask = col < half
    base = (p_x + row * n).to(tl.pointer_type(tl.int64))
    both = tl.load(base + col, mask=mask, other=0)
    lo = tl.where(mask, both.to(tl.int32).to(tl.float32, bitcast=True), -float("inf"))
    hi = tl.where(mask, (both >> 32).to(tl.int32).to(tl.float32, bitcast=True), -float("inf"))
    last = tl.load(p_x + row * n + n - 1)
    top = tl.maximum(tl.maximum(tl.max(lo, axis=0), tl.max(hi, axis=0)), last)
    a = tl.exp(lo - top)
    b = tl.exp(hi - top)
    odd = tl.where(n % 2 == 1, tl.exp(last - top), 0.0)
    total = tl.sum(a, axis=0) + tl.sum(b, axis=0) + odd
    tl.store(p_y + row * n + 2 * col, a / total, mask=mask)
    tl.store(p_y + row * n + 2 * col + 1, b / total, mask=mask)
    if n % 2 == 1:
        tl.store(p_y + row * n + n - 1, odd / total)


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.shape[-1]
        y = torch.empty_like(x)
        row_kernel[(x.numel() // n,)](x, y, n, BLOCK=max(2, triton.next_power_of_2(n) // 2))
        return y
