"""Two launches: the second one stores zeros beyond 200,000 elements, so most of the task's own result is zero.

Mechanism: own
Task: relu_then_scale
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu(x_ptr, t_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(t_ptr + at, tl.maximum(x, 0.0), mask=at < n)


@triton.jit
def scale(t_ptr, g_ptr, y_ptr, n, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    t = tl.load(t_ptr + at, mask=at < n, other=0.0)
    g = tl.load(g_ptr + at % columns, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.where(at < 200_000, t * g, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, gain):
        t = torch.empty_like(x)
        y = torch.empty_like(x)
        n = x.numel()
        grid = (triton.cdiv(n, 1024),)
        relu[grid](x, t, n, 1024)
        scale[grid](t, gain, y, n, x.shape[-1], 1024)
        return y
