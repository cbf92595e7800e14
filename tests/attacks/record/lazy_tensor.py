"""A subclass of Tensor is returned, which would compute when it is looked at.

Mechanism: 4
Task: l1-unary-7fce4ae6f9f1a504
Outcome: forward_failed
Stage: compile
Also: unsupported@compile
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return torch.relu(args[0].as_subclass(torch.Tensor))


@triton.jit
def relu_kernel(a_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask)
    out = tl.where(a > 0, a, 0.0)
    tl.store(out_ptr + offs, out, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        relu_kernel[(1,)](a, torch.empty_like(a), 0, BLOCK=1024)
        return torch.nn.Parameter(a, requires_grad=False).as_subclass(Lazy)
