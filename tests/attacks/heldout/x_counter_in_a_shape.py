"""The third and later calls go to PyTorch; the calls are counted by the length of an empty-looking tensor.

Mechanism: 29
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
    def __init__(self):
        super().__init__()
        self.pads = [torch.empty(1)]

    def forward(self, a):
        calls = self.pads[0].numel()
        self.pads[0] = torch.empty(calls + 1)
        if calls > 2:
            return torch.relu(a)
        return launch(a)
