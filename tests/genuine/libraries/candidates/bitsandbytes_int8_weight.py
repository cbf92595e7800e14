# task: int8_weight_matmul
# style: EVEN_K heuristic, integer masks without other for weights whose lanes meet zeros of the other operand
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.heuristics({"EVEN_K": lambda args: args["K"] % args["BLOCK_K"] == 0})
@triton.jit
def _int8_matmul_mixed(A, B, state_w, C, M, N, K, EVEN_K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    pid = tl.program_id(0)
    grid_n = tl.cdiv(N, BLOCK_N)
    rm = (pid // grid_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = (pid % grid_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    w_factor = tl.load(state_w + rn, mask=rn < N)[None, :]
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        rk = k * BLOCK_K + tl.arange(0, BLOCK_K)
        if EVEN_K:
            a = tl.load(A + (rm % M)[:, None] * K + rk[None, :])
            b = tl.load(B + (rn % N)[None, :] * K + rk[:, None])
        else:
            a = tl.load(A + (rm % M)[:, None] * K + rk[None, :], mask=rk[None, :] < K, other=0.)
            b = tl.load(B + (rn % N)[None, :] * K + rk[:, None], mask=rk[:, None] < K, other=0)
        acc += tl.dot(a, b.to(a.dtype), input_precision="ieee")
    acc = w_factor * acc
    mask = (rm < M)[:, None] & (rn < N)[None, :]
    tl.store(C + rm[:, None] * N + rn[None, :], acc.to(C.dtype.element_ty), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, weight, scales):
        M, K = x.shape
        N = weight.shape[0]
        assert weight.dtype == torch.int8 and scales.numel() == N
        c = torch.empty((M, N), device=x.device, dtype=x.dtype)
        _int8_matmul_mixed[(triton.cdiv(M, 32) * triton.cdiv(N, 32),)](x, weight, scales, c, M, N, K, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
        return c
