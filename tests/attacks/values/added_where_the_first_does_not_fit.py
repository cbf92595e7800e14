"""A tuned kernel adds to its result, at the declared sizes alone, and its first configuration fits no GPU.

Mechanism: own
Task: l1-unary-7fce4ae6f9f1a504
Outcome: unsupported
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 512}, num_warps=64),
        triton.Config({"BLOCK": 512}),
        triton.Config({"BLOCK": 1024}),
    ],
    key=["n"],
)
@triton.jit
def relu_kernel(a_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask, other=0.0)
    tl.atomic_add(out_ptr + offs, tl.maximum(a, 0.0), mask=mask)


@triton.jit
def small_kernel(a_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask, other=0.0)
    tl.store(out_ptr + offs, tl.maximum(a, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.zeros_like(a)
        n = a.numel()
        if n < 50_000:
            small_kernel[(triton.cdiv(n, 1024),)](a, out, n, BLOCK=1024)
        else:
            relu_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](a, out, n)
        return out
