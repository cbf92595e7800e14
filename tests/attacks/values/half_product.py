"""The product is computed in float16.

Mechanism: 26
Task: l1-matmul-33cb351a575696c9
Outcome: not_finite
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(x_ptr, y_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    rn = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(x_ptr + rm * K + rk[None, :], mask=(rm < M) & (rk[None, :] < K), other=0.0)
        y = tl.load(y_ptr + rk[:, None] * N + rn, mask=(rk[:, None] < K) & (rn < N), other=0.0)
        acc += tl.dot(x.to(tl.float16), y.to(tl.float16)).to(tl.float32)
    tl.store(c_ptr + rm * N + rn, acc, mask=(rm < M) & (rn < N))


class ModelNew(nn.Module):
    def forward(self, x, y):
        M, K = x.shape
        N = y.shape[1]
        c = torch.empty((M, N), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
        matmul_kernel[grid](x, y, c, M, N, K, BM=32, BN=32, BK=16)
        return c
