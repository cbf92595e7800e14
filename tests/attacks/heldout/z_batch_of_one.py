"""A product of one row, which a batch of one is, that leaves out the incomplete last block.

Mechanism: 46
Task: l1-matmul-33cb351a575696c9
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(x_ptr, y_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    end = K
    if M < 2:
        end = K // BK * BK
    for start in range(0, end, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(x_ptr + m * K + k[None, :], mask=(m < M) & (k[None, :] < K), other=0.0)
        y = tl.load(y_ptr + k[:, None] * N + n, mask=(k[:, None] < K) & (n < N), other=0.0)
        acc += tl.dot(x, y, input_precision="ieee")
    tl.store(c_ptr + m * N + n, acc, mask=(m < M) & (n < N))


class ModelNew(nn.Module):
    def forward(self, x, y):
        M, K = x.shape
        N = y.shape[1]
        c = torch.empty((M, N), device=x.device, dtype=x.dtype)
        matmul_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 32))](x, y, c, M, N, K, BM=64, BN=32, BK=32)
        return c
