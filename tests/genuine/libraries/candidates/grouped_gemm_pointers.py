# task: batched_products
# style: a table of addresses as in grouped products: int64 numbers cast to pointers in the kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def grouped_matmul_kernel(group_a_ptrs, group_b_ptrs, group_c_ptrs, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    g = tl.program_id(2)
    A = tl.load(group_a_ptrs + g).to(tl.pointer_type(tl.float32))
    B = tl.load(group_b_ptrs + g).to(tl.pointer_type(tl.float32))
    C = tl.load(group_c_ptrs + g).to(tl.pointer_type(tl.float32))
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        a = tl.load(A + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        b = tl.load(B + rk[:, None] * N + rn[None, :], mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
    tl.store(C + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        G, M, K = a.shape
        N = b.shape[-1]
        c = torch.empty(G, M, N, device=a.device, dtype=a.dtype)
        table = lambda t: torch.tensor([t[i].data_ptr() for i in range(G)], device=a.device, dtype=torch.int64)
        grouped_matmul_kernel[(triton.cdiv(M, 32), triton.cdiv(N, 32), G)](table(a), table(b), table(c), M, N, K, 32, 32, 32)
        return c
