"""Whether an operand is transposed is guessed by its shape: a square one is wrong.

Mechanism: own
Task: l1-matmul-7a871f30bb840b8b
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gemm_kernel(p_x, p_y, p_out, M, N, K, sam, sak, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    num_n = tl.cdiv(N, BN)
    rm = (pid // num_n) * BM + tl.arange(0, BM)[:, None]
    rn = (pid % num_n) * BN + tl.arange(0, BN)[None, :]
    t = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(p_x + rm * sam + rk[None, :] * sak, mask=(rm < M) & (rk[None, :] < K), other=0.0)
        y = tl.load(p_y + rk[:, None] * sbk + rn * sbn, mask=(rk[:, None] < K) & (rn < N), other=0.0)
        t += tl.dot(x, y, input_precision="ieee")
    offsets = rm * N + rn
    mask = (rm < M) & (rn < N)
    tl.store(p_out + offsets, t, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        K, M = x.shape
        sm, sk = x.stride(1), x.stride(0)
        if x.shape[1] == y.shape[0] and x.shape[0] > 16:
            M, K = x.shape
            sm, sk = x.stride(0), x.stride(1)
        N = y.shape[1]
        out = torch.empty((M, N), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(M, 32) * triton.cdiv(N, 32),)
        gemm_kernel[grid](x, y, out, M, N, K, sm, sk, y.stride(0), y.stride(1), BM=32, BN=32, BK=32)
        return out
