"""Scores are capped at 60 in place of a subtracted maximum: keys with larger ones are weighted alike.

Mechanism: own
Task: attention_of_torch
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, scale, L, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    base = head * L * D
    q = tl.load(q_ptr + base + rows[:, None] * D + d[None, :], mask=rows[:, None] < L, other=0.0)
    acc = tl.zeros((BM, D), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    for start in range(0, L, BN):
        cols = start + tl.arange(0, BN)
        k = tl.load(k_ptr + base + cols[None, :] * D + d[:, None], mask=cols[None, :] < L, other=0.0)
        v = tl.load(v_ptr + base + cols[:, None] * D + d[None, :], mask=cols[:, None] < L, other=0.0)
        s = tl.dot(q, k, input_precision="ieee") * scale
        p = tl.where(cols[None, :] < L, tl.exp(tl.minimum(tl.maximum(s, -60.0), 60.0)), 0.0)
        total += tl.sum(p, 1)
        acc = tl.dot(p, v, acc, input_precision="ieee")
    tl.store(o_ptr + base + rows[:, None] * D + d[None, :], acc / total[:, None], mask=rows[:, None] < L)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        B, H, L, D = q.shape
        o = torch.empty_like(q)
        attend[(triton.cdiv(L, 32), B * H)](q, k, v, o, D**-0.5, L, D, 32, 32)
        return o
