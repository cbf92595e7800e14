# task: matmul
# style: rows and columns that wrap around and are said to be contiguous, grouped programs, a loop that counts down
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mm(A, B, C, M, N, K, sam, sak, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GM: tl.constexpr):
    pid = tl.program_id(0)
    gm = (M + BM - 1) // BM
    gn = (N + BN - 1) // BN
    width = GM * gn
    group_id = pid // width
    gs = min(gm - group_id * GM, GM)
    pid_m = group_id * GM + (pid % gs)
    pid_n = (pid % width) // gs
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    ram = tl.max_contiguous(tl.multiple_of(rm % M, BM), BM)
    rbn = tl.max_contiguous(tl.multiple_of(rn % N, BN), BN)
    rk = tl.arange(0, BK)
    A = A + (ram[:, None] * sam + rk[None, :] * sak)
    B = B + (rk[:, None] * sbk + rbn[None, :] * sbn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(K, 0, -BK):
        a = tl.load(A, mask=rk[None, :] < k, other=0.0)
        b = tl.load(B, mask=rk[:, None] < k, other=0.0)
        acc += tl.dot(a, b, allow_tf32=False)
        A += BK * sak
        B += BK * sbk
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    idx_m = rm[:, None]
    idx_n = rn[None, :]
    mask = (idx_m < M) & (idx_n < N)
    xindex = idx_n + (N * idx_m)
    tl.store(C + (tl.broadcast_to(xindex, acc.shape)), acc, mask)


class ModelNew(nn.Module):
    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[1]
        c = torch.empty((M, N), device=a.device, dtype=a.dtype)
        grid = lambda META: (triton.cdiv(M, META["BM"]) * triton.cdiv(N, META["BN"]),)
        mm[grid](a, b, c, M, N, K, a.stride(0), a.stride(1), b.stride(0), b.stride(1), BM=64, BN=64, BK=32, GM=8)
        return c
