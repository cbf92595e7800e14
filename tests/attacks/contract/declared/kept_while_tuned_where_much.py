"""A tuned kernel adds to what is there, by a condition in it, where there are more elements than declared.

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
def triple_and_one(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(x_ptr + at, mask=at < n) * 3.0 + 1.0
    if n > 1_600_000:
        y += tl.load(out_ptr + at, mask=at < n)
    tl.store(out_ptr + at, y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.zeros_like(x)
        n = x.numel()
        triple_and_one[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
        return out
