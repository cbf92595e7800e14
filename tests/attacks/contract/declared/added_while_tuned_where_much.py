"""A tuned kernel adds to its result where there are more than one and a half times as many elements as declared.

Mechanism: own
Task: many_tiles
Outcome: wrong_values
Also: unsupported@full
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 512}), triton.Config({"BLOCK": 1024})], key=["n"])
@triton.jit
def add_triple_and_one(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.atomic_add(out_ptr + at, x * 3.0 + 1.0, mask=at < n)


@triton.jit
def triple_and_one(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * 3.0 + 1.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        if n > 1_600_000:
            out = torch.zeros_like(x)
            add_triple_and_one[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
        else:
            out = torch.empty_like(x)
            triple_and_one[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
