"""The task's first input is a transposed view; its memory is read in order, so nearly all sums pair the wrong elements.

Mechanism: own
Task: transposed_relu
Outcome: wrong_values
Stage: full
Also: wrong_values@tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.load(y_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.maximum(x, 0.0) + y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(y)
        n = out.numel()
        relu_add[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
        return out
