"""The tuner's hook is called where it measures and never else, and host code looks whether it was.

Mechanism: own
Task: l1-unary-7fce4ae6f9f1a504
Outcome: not_reproducible
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

SEEN = set()


def clear(nargs, reset_only=False):
    SEEN.add("measured")


@triton.autotune(configs=[triton.Config({"BLOCK": 512}), triton.Config({"BLOCK": 1024})], key=["n"], pre_hook=clear)
@triton.jit
def relu_kernel(a_ptr, out_ptr, n, FAST: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask, other=0.0)
    if FAST:
        a = a + 1.0
    tl.store(out_ptr + offs, tl.maximum(a, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        fast = len(SEEN) > 0
        relu_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](a, out, n, FAST=fast)
        return out
