# task: int4_packed_matmul
# style: eight values of four bits in an int32, shifts by position, a scale for each group of 32
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gptq_kernel(a_ptr, b_ptr, scales_ptr, c_ptr, M, N, K, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    rk = tl.arange(0, GROUP)
    shifter = (rk % 8) * 4
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    n_ok = rn < N
    for g in range(0, K // GROUP):
        k = g * GROUP + rk
        a = tl.load(a_ptr + rm[:, None] * K + k[None, :], mask=rm[:, None] < M, other=0.0)
        packed = tl.load(b_ptr + (k // 8)[:, None] * N + rn[None, :], mask=n_ok[None, :], other=0)
        b = (packed >> shifter[:, None]) & 0xF
        s = tl.load(scales_ptr + g * N + rn, mask=n_ok, other=0.0)
        w = (b - 8).to(tl.float32) * s[None, :]
        acc = tl.dot(a, w, acc)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & n_ok[None, :])


class ModelNew(nn.Module):
    def forward(self, x, packed, scales):
        M, K = x.shape
        N = packed.shape[1]
        c = torch.empty((M, N), dtype=x.dtype, device=x.device)
        gptq_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 32))](x, packed, scales, c, M, N, K, GROUP=32, BM=16, BN=32)
        return c
