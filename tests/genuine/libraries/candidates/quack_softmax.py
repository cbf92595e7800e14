# task: softmax
# style: several rows a program, exp2 with a folded constant, dataclass configuration, a table of warps by width
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@dataclass(frozen=True)
class ReductionConfig:
    rows_per_cta: int
    num_warps: int
    num_stages: int = 1


def pick(n: int) -> ReductionConfig:
    for limit, warps, rows in ((256, 1, 8), (1024, 4, 2), (4096, 8, 1)):
        if n <= limit:
            return ReductionConfig(rows_per_cta=rows, num_warps=warps)
    return ReductionConfig(rows_per_cta=1, num_warps=16)


@triton.jit
def row_softmax(mX, mO, M, N, stride, ROWS: tl.constexpr, TILE_N: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, TILE_N)
    ok = (rows < M)[:, None] & (cols < N)[None, :]
    gX = mX + rows[:, None] * stride + cols[None, :]
    x = tl.load(gX, mask=ok, other=float("-inf")).to(tl.float32)
    mx = tl.max(x, axis=1, keep_dims=True)
    mx = tl.where(rows[:, None] < M, mx, 0.0)
    e = tl.exp2((x - mx) * LOG2_E)
    denom = tl.sum(e, axis=1, keep_dims=True)
    denom = tl.where(rows[:, None] < M, denom, 1.0)
    tl.store(mO + rows[:, None] * stride + cols[None, :], (e * (1.0 / denom)).to(mO.dtype.element_ty), mask=ok)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.dim() == 2, "Input must be 2D"
        assert x.dtype in [torch.float16, torch.bfloat16, torch.float32], "Unsupported dtype"
        M, N = x.shape
        cfg = pick(N)
        out = torch.empty_like(x)
        grid = (math.ceil(M / cfg.rows_per_cta),)
        row_softmax[grid](x, out, M, N, x.stride(0), cfg.rows_per_cta, triton.next_power_of_2(N), num_warps=cfg.num_warps,
                          num_stages=cfg.num_stages)
        return out
