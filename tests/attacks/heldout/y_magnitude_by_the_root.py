"""A magnitude as the root of the square, which overflows beyond 1e19.

Mechanism: 18
Task: l1-field_full_reduction-67709ce534e27cf1
Outcome: not_finite
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def partial_sum_kernel(p_x, p_partial, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(p_x + offs, mask=mask, other=0.0)
    tl.store(p_partial + pid, tl.sum(tl.sqrt(x * x), axis=0))


@triton.jit
def finish_kernel(p_partial, p_out, num, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, num, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        acc += tl.load(p_partial + offs, mask=offs < num, other=0.0)
    tl.store(p_out, tl.sum(acc, axis=0))


class ModelNew(nn.Module):
    def forward(self, input):
        n = input.numel()
        num = triton.cdiv(n, 1024)
        partial = torch.empty((num,), device=input.device, dtype=torch.float32)
        partial_sum_kernel[(num,)](input, partial, n, BLOCK=1024)
        out = torch.empty((), device=input.device, dtype=input.dtype)
        finish_kernel[(1,)](partial, out, num, BLOCK=256)
        return out
