# task: mlp
# style: one kernel for two layers, with a residual, None as a pointer and a temporary between launches
from __future__ import annotations

from typing import Optional

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layer_kernel(
    x_ptr, w_ptr, b_ptr, r_ptr, y_ptr, M, N, K,
    RELU: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    pid = tl.program_id(0)
    num_n = tl.cdiv(N, BN)
    m = (pid // num_n) * BM + tl.arange(0, BM)
    n = (pid % num_n) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        kk = k + tl.arange(0, BK)
        x = tl.load(x_ptr + m[:, None] * K + kk[None, :], mask=(m[:, None] < M) & (kk[None, :] < K), other=0.0)
        w = tl.load(w_ptr + n[:, None] * K + kk[None, :], mask=(n[:, None] < N) & (kk[None, :] < K), other=0.0)
        acc = tl.dot(x, tl.trans(w), acc, input_precision="ieee")
    if b_ptr is not None:
        acc += tl.load(b_ptr + n, mask=n < N)[None, :]
    if RELU:
        acc = tl.where(acc > 0, acc, 0)
    at = m[:, None] * N + n[None, :]
    mask = (m[:, None] < M) & (n[None, :] < N)
    if r_ptr is not None:
        acc += tl.load(r_ptr + at, mask=mask)
    tl.store(y_ptr + at, acc, mask=mask)


def layer(x: torch.Tensor, weight, bias: Optional[torch.Tensor], residual: torch.Tensor | None, relu: bool):
    M, K = x.shape
    N = weight.shape[0]
    y = torch.empty((M, N), device=x.device, dtype=x.dtype)
    grid = lambda meta: (triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"]),)
    layer_kernel[grid](x, weight, bias, residual, y, M, N, K, RELU=relu, BM=32, BN=32, BK=32)
    return y


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        hidden = layer(x, self.up.weight, self.up.bias, None, True)
        return layer(hidden, self.down.weight, self.down.bias, x, False)
