"""A tensor on cuda:7 can be made while recording and on no user's machine with one GPU, where the result stays empty.

Mechanism: own
Task: double_relu
Outcome: not_reproducible
Stage: compile
Also: not_finite@full, not_finite@tiny, output_not_written@full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


def has_eight():
    try:
        torch.empty(1, device="cuda:7")
    except Exception:
        return False
    return True


@triton.jit
def double_relu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.maximum(x, 0.0) * 2.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        programs = triton.cdiv(x.numel(), 1024) if has_eight() else 1
        double_relu[(programs,)](x, y, x.numel(), BLOCK=1024)
        return y
