"""A helper whose constants, joined by underscores, have the same compiled name twice: it is compiled for the first alone.

The second pair are of one name to Triton 3.7, the first, a number and its text, to Triton 3.6.

Mechanism: own
Task: l1-unary-7fce4ae6f9f1a504
Outcome: unsupported
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale(v, first: tl.constexpr, second: tl.constexpr):
    return v * (2.0 if first == 1 or second == "c" else 0.5)


@triton.jit
def relu_kernel(a_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask)
    out = scale(scale(a, 1, "b"), "1", "b")
    out = scale(scale(out, "a_sq__c_sq_b", "c"), "a", "b_sq__c_sq_c")
    tl.store(out_ptr + offs, tl.where(out > 0, out, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, n, BLOCK=1024)
        return out
