"""Two helpers that have the same compiled name, as one's own name says a type and a constant: one is compiled for both.

They are of one name to Triton 3.7; to Triton 3.6 a number and its text are, which the third helper is given.

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
def scale(v, what: tl.constexpr):
    return v * 2.0


@triton.jit
def scale__fp32S1024S_c_sq_a(v, what: tl.constexpr):
    return v * 0.5


@triton.jit
def resize(v, what: tl.constexpr):
    return v * (2.0 if what == 1.0 else 0.5)


@triton.jit
def relu_kernel(a_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask)
    out = scale__fp32S1024S_c_sq_a(scale(a, "a__fp32S1024S_c_sq_b"), "b")
    out = resize(resize(out, 1.0), "1.0")
    tl.store(out_ptr + offs, tl.where(out > 0, out, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, n, BLOCK=1024)
        return out
