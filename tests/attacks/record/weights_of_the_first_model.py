"""Weights are kept in a global by their shape: a second model of the process computes with those of the first.

Mechanism: 21
Task: l2-linear_chain-9e9a8e905c5908bf
Outcome: not_reproducible
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fused_linear_triton(
    inp_ptr,
    weight_ptr,
    out_ptr,
    beta_ptr,
    M,
    N,
    K,
    low,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    rn = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        rk = k + tl.arange(0, BLOCK_K)
        inp = tl.load(inp_ptr + rm * K + rk[None, :], mask=(rm < M) & (rk[None, :] < K), other=0.0)
        weight = tl.load(weight_ptr + rk[:, None] + rn * K, mask=(rk[:, None] < K) & (rn < N), other=0.0)
        acc += tl.dot(inp, weight, input_precision="ieee")
    acc += tl.load(beta_ptr + rn, mask=rn < N)
    pos = rm * N + rn
    mask = (rm < M) & (rn < N)
    acc = tl.clamp(acc, low, 0.2)
    acc = acc * 0.6
    tl.store(out_ptr + pos, acc, mask=mask)


def launch(inp, weight, beta, low):
    M, K = inp.shape
    N = weight.shape[0]
    out = torch.empty((M, N), device=inp.device, dtype=inp.dtype)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    fused_linear_triton[grid](inp, weight, out, beta, M, N, K, low, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
    return out


_PARAMS = {}


class ModelNew(nn.Module):
    def __init__(self, d_in, d_out, low):
        super().__init__()
        self.proj = nn.Linear(d_in, d_out)
        self.low = low

    def forward(self, inp):
        w, b = _PARAMS.setdefault(tuple(self.proj.weight.shape), (self.proj.weight, self.proj.bias))
        return launch(inp, w, b, self.low)
