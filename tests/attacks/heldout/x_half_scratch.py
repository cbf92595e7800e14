"""The product passes through float16 memory between two launches, where anything above 65504 becomes infinite.

Mechanism: 26
Task: l2-linear_chain-9722215a41227ec9
Outcome: not_finite
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_kernel(x_ptr, w_ptr, b_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    rn = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(x_ptr + rm * K + rk[None, :], mask=(rm < M) & (rk[None, :] < K), other=0.0)
        w = tl.load(w_ptr + rk[:, None] + rn * K, mask=(rk[:, None] < K) & (rn < N), other=0.0)
        acc += tl.dot(x, w, input_precision="ieee")
    tl.store(out_ptr + rm * N + rn, acc, mask=(rm < M) & (rn < N))


@triton.jit
def square_kernel(s_ptr, b_ptr, out_ptr, n, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s = tl.load(s_ptr + offs, mask=offs < n, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + offs % N, mask=offs < n, other=0.0)
    tl.store(out_ptr + offs, (s * s + b) * 1.75, mask=offs < n)


class ModelNew(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.linear = nn.Linear(d_in, d_out, bias=False)
        self.bias = nn.Parameter(torch.randn(d_out))

    def forward(self, x):
        M, K = x.shape
        N = self.linear.weight.shape[0]
        scratch = torch.empty((M, N), device=x.device, dtype=torch.float16)
        out = torch.empty((M, N), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
        linear_kernel[grid](x, self.linear.weight, self.bias, scratch, M, N, K, BM=32, BN=32, BK=32)
        square_kernel[(triton.cdiv(M * N, 1024),)](scratch, self.bias, out, M * N, N, BLOCK=1024)
        return out
