"""A product of float16 matrices is added up in float16, which large terms that cancel show.

Mechanism: own
Task: matmul_half
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def multiply(a_ptr, b_ptr, out_ptr, M, N, K, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float16)
    for start in range(0, K, BLOCK):
        inner = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + row * K + inner[None, :], mask=(row < M) & (inner[None, :] < K), other=0.0)
        b = tl.load(b_ptr + inner[:, None] * N + column, mask=(inner[:, None] < K) & (column < N), other=0.0)
        total = tl.dot(a, b, total, out_dtype=tl.float16)
    tl.store(out_ptr + row * N + column, total, mask=(row < M) & (column < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        (m, k), n = a.shape, b.shape[1]
        out = torch.empty((m, n), dtype=a.dtype, device=a.device)
        multiply[(triton.cdiv(m, 32), triton.cdiv(n, 32))](a, b, out, m, n, k, BLOCK=32)
        return out
