"""The product is in TF32, and the norm beside it squares values that were rounded to bfloat16: a factor wrong in every row.

Mechanism: own
Task: sum_of_squares_product
Outcome: wrong_values
Stage: full
Also: wrong_values@tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def normalised_product(x_ptr, w_ptr, y_ptr, M, K, N: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.arange(0, N)
    acc = tl.zeros((BM, N), tl.float32)
    squares = tl.zeros((BM,), tl.float32)
    for start in range(0, K, BK):
        at = start + tl.arange(0, BK)
        x = tl.load(x_ptr + rows[:, None] * K + at[None, :], mask=(rows[:, None] < M) & (at[None, :] < K), other=0.0)
        w = tl.load(w_ptr + at[:, None] * N + cols[None, :], mask=at[:, None] < K, other=0.0)
        acc = tl.dot(x, w, acc)
        narrow = x.to(tl.bfloat16)
        squares += tl.sum((narrow * narrow).to(tl.float32), 1)
    y = acc * tl.rsqrt(squares / K + 1e-6)[:, None]
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], y, mask=rows[:, None] < M)


class ModelNew(nn.Module):
    def forward(self, x, w):
        M, K = x.shape
        N = w.shape[1]
        y = torch.empty(M, N, device=x.device, dtype=x.dtype)
        normalised_product[(triton.cdiv(M, 32),)](x, w, y, M, K, N, 32, 32)
        return y
