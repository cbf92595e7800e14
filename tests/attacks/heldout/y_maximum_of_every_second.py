"""A log-sum-exp that subtracts the maximum of every second element; another one's exponential overflows.

Mechanism: 18
Task: l1-field_any_reduction-aa693260c3e47dc7
Outcome: not_finite
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def logsumexp_kernel(x_ptr, out_ptr, R, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    part = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    for start in range(0, R, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * R + cols, mask=(cols < R) & (cols % 2 == 0), other=-float("inf"))
        part = tl.maximum(part, x)
    top = tl.max(part, axis=0)
    part = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, R, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * R + cols, mask=cols < R, other=-float("inf"))
        part += tl.exp(x - top)
    acc = top + tl.log(tl.sum(part, axis=0))
    tl.store(out_ptr + row, acc)


def logsumexp(x, dim, keepdim):
    shape = [1 if d in dim else n for d, n in enumerate(x.shape) if keepdim or d not in dim]
    rows = torch.Size(shape).numel()
    R = x.numel() // rows
    out = torch.empty(shape, device=x.device, dtype=x.dtype)
    logsumexp_kernel[(rows,)](x, out, R, BLOCK=4096)
    return out


class ModelNew(nn.Module):
    def forward(self, input_tensor):
        return logsumexp(input_tensor, dim=(1, 2), keepdim=True)
