"""A first launch packs the weights into bfloat16, and the product in TF32 widens them again: weights of three digits.

Mechanism: own
Task: linear_bias
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pack(w_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(w_ptr + at, mask=at < n, other=0.0).to(tl.bfloat16), mask=at < n)


@triton.jit
def linear(x_ptr, w_ptr, b_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        at = start + tl.arange(0, BK)
        x = tl.load(x_ptr + rows[:, None] * K + at[None, :], mask=(rows[:, None] < M) & (at[None, :] < K), other=0.0)
        w = tl.load(w_ptr + cols[None, :] * K + at[:, None], mask=(at[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(x, w.to(tl.float32), acc)
    acc += tl.load(b_ptr + cols, mask=cols < N, other=0.0)[None, :]
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self, size_in, size_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size_out, size_in) * 0.05)
        self.bias = nn.Parameter(torch.randn(size_out))

    def forward(self, x):
        M, K = x.shape
        N = self.weight.shape[0]
        packed = torch.empty(N, K, device=x.device, dtype=torch.bfloat16)
        y = torch.empty(M, N, device=x.device, dtype=x.dtype)
        pack[(triton.cdiv(N * K, 1024),)](self.weight, packed, N * K, 1024)
        linear[(triton.cdiv(M, 32), triton.cdiv(N, 32))](x, packed, self.bias, y, M, N, K, 32, 32, 32)
        return y
