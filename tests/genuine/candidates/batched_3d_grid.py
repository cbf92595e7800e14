# task: batched_matmul
# style: a 3-D grid, strides for every axis, int64 batch offsets
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bmm_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, sab, sam, sak, sbb, sbk, sbn, scb, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    batch = tl.program_id(2).to(tl.int64)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a = a_ptr + batch * sab + m[:, None] * sam + k[None, :] * sak
    b = b_ptr + batch * sbb + k[:, None] * sbk + n[None, :] * sbn
    acc = tl.zeros((BM, BN), tl.float32)
    remaining = K
    while remaining > 0:
        acc += tl.dot(
            tl.load(a, mask=(m[:, None] < M) & (k[None, :] < remaining), other=0.0),
            tl.load(b, mask=(k[:, None] < remaining) & (n[None, :] < N), other=0.0),
            input_precision="ieee",
        )
        a += BK * sak
        b += BK * sbk
        remaining -= BK
    tl.store(c_ptr + batch * scb + m[:, None] * scm + n[None, :] * scn, acc, mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        B, M, K = a.size()
        N = b.size(-1)
        c = torch.empty((B, M, N), device=a.device, dtype=a.dtype)
        grid = (triton.cdiv(M, 32), triton.cdiv(N, 32), B)
        bmm_kernel[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), 32, 32, 32, num_warps=4)
        return c
