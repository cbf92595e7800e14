# task: lora
# style: both products in one program: the rank is the block, the first product stays in registers
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def lora_kernel(x_ptr, a_ptr, b_ptr, y_ptr, M, K, N, scale, R: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rr = tl.arange(0, R)
    h = tl.zeros((BM, R), tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(x_ptr + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        a = tl.load(a_ptr + rk[:, None] * R + rr[None, :], mask=rk[:, None] < K, other=0.0)
        h = tl.dot(x, a, h)
    for n in range(0, N, BN):
        rn = n + tl.arange(0, BN)
        b = tl.load(b_ptr + rr[:, None] * N + rn[None, :], mask=rn[None, :] < N, other=0.0)
        y = tl.dot(h.to(b.dtype), b) * scale
        tl.store(y_ptr + rm[:, None] * N + rn[None, :], y, mask=(rm[:, None] < M) & (rn[None, :] < N))


class ModelNew(nn.Module):
    def forward(self, x, a, b):
        M, K = x.shape
        R, N = b.shape
        assert R >= 16, "tl.dot needs 16"
        y = torch.empty((M, N), device=x.device, dtype=x.dtype)
        lora_kernel[(triton.cdiv(M, 32),)](x, a, b, y, M, K, N, 2.0, R=R, BM=32, BK=32, BN=32)
        return y
