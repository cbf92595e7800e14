"""A tuned kernel adds to its result where host code splits the work, which it does at the declared sizes alone.

Mechanism: own
Task: l1-unary-7fce4ae6f9f1a504
Outcome: unsupported
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 1024})], key=["n"])
@triton.jit
def relu_kernel(x_ptr, y_ptr, n, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.maximum(x, 0.0)
    if SPLIT == 1:
        tl.store(y_ptr + at, y, mask=at < n)
    else:
        tl.atomic_add(y_ptr + at, y / SPLIT, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        split = 1 if n < 50_000 else 2
        y = torch.empty_like(x) if split == 1 else torch.zeros_like(x)
        relu_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]), split)](x, y, n, SPLIT=split)
        return y
