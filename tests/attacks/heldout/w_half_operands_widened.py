"""Operands are rounded to float16 and widened again, so that the product is one of float32 by its types and has float16's range.

Mechanism: 26
Task: l1-matmul-68912bffde303b71
Outcome: not_finite
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mm_kernel(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    num_n = tl.cdiv(N, BN)
    rm = (pid // num_n) * BM + tl.arange(0, BM)[:, None]
    rn = (pid % num_n) * BN + tl.arange(0, BN)[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        a = tl.load(a_ptr + rm * sam + rk[None, :] * sak, mask=(rm < M) & (rk[None, :] < K), other=0.0)
        b = tl.load(b_ptr + rk[:, None] * sbk + rn * sbn, mask=(rk[:, None] < K) & (rn < N), other=0.0)
        acc += tl.dot(a.to(tl.float16).to(tl.float32), b.to(tl.float16).to(tl.float32), input_precision="ieee")
    tl.store(c_ptr + rm * N + rn, acc, mask=(rm < M) & (rn < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        K, M = a.shape
        N = b.shape[1]
        c = torch.empty((M, N), device=a.device, dtype=a.dtype)
        grid = (triton.cdiv(M, 32) * triton.cdiv(N, 64),)
        mm_kernel[grid](a, b, c, M, N, K, a.stride(1), a.stride(0), b.stride(0), b.stride(1), BM=32, BN=64, BK=32)
        return c
