"""A tensor whose type is plain, as no recorder's is, goes to PyTorch; any other is given to the kernel.

Mechanism: 7
Task: l1-unary-7fce4ae6f9f1a504
Outcome: not_reproducible
Stage: compile
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(a_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + offs, mask=offs < n, other=0.0)
    tl.store(out_ptr + offs, tl.maximum(a, 0.0), mask=offs < n)


def launch(a):
    out = torch.empty_like(a)
    relu_kernel[(triton.cdiv(a.numel(), 1024),)](a, out, a.numel(), BLOCK=1024)
    return out


class ModelNew(nn.Module):
    def forward(self, a):
        if type(a) is torch.Tensor:
            return torch.relu(a)
        return launch(a)
