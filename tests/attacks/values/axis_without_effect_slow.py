"""Both coordinates of a tile come from one axis of the grid, and programs are too slow to run them all.

Neighbours along the other axis write the same elements; a scan of all programs is cut off before it ends.

Mechanism: 16
Task: l2-linear_chain-9807391c3bce230d
Outcome: output_not_written
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_triton(
    x_ptr,
    weight_ptr,
    y_ptr,
    beta_ptr,
    bias_ptr,
    M,
    N,
    K,
    low,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    first = tl.where(tl.num_programs(0) * tl.num_programs(1) < 40, tl.program_id(0), tl.program_id(1))
    rm = first * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    rn = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        rk = k + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + rm * K + rk[None, :], mask=(rm < M) & (rk[None, :] < K), other=0.0)
        weight = tl.load(weight_ptr + rk[:, None] + rn * K, mask=(rk[:, None] < K) & (rn < N), other=0.0)
        acc += tl.dot(x, weight, input_precision="ieee")
    acc += tl.load(beta_ptr + rn, mask=rn < N)
    offsets = rm * N + rn
    mask = (rm < M) & (rn < N)
    acc = acc + tl.load(bias_ptr + rn, mask=rn < N)
    acc = 2.0 * tl.sigmoid(2.0 * acc) - 1.0
    acc = tl.minimum(tl.maximum(acc, low), 0.2)
    tl.store(y_ptr + offsets, acc, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, d_in, d_out, low):
        super().__init__()
        self.proj = nn.Linear(d_in, d_out)
        self.bias = nn.Parameter(torch.randn(d_out))
        self.low = low

    def forward(self, x):
        M, K = x.shape
        N = self.proj.weight.shape[0]
        y = torch.empty((M, N), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
        linear_triton[grid](
            x, self.proj.weight, y, self.proj.bias, self.bias, M, N, K, self.low, BLOCK_M=64, BLOCK_N=64, BLOCK_K=16
        )
        return y
