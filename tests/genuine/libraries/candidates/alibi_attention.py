# task: attention_alibi
# style: slopes loaded by head without a mask, distances by tl.abs, stages as launch options
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def alibi_fwd(Q, K, V, S, O, scale, H, L, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    pid_m, pid_h = tl.program_id(0), tl.program_id(1)
    base = pid_h * L * D
    rm = pid_m * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    slope = tl.load(S + pid_h % H)
    q = tl.load(Q + base + rm[:, None] * D + rd[None, :], mask=rm[:, None] < L, other=0.0) * scale
    m = tl.full((BM,), -1e30, tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for n in tl.range(0, L, BN, num_stages=2):
        rn = n + tl.arange(0, BN)
        k = tl.load(K + base + rn[:, None] * D + rd[None, :], mask=rn[:, None] < L, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee")
        s -= slope * tl.abs(rm[:, None] - rn[None, :]).to(tl.float32)
        s = tl.where(rn[None, :] < L, s, -1e30)
        m_new = tl.maximum(m, tl.max(s, axis=1))
        p = tl.exp(s - m_new[:, None])
        p = tl.where(rn[None, :] < L, p, 0.0)
        r = tl.exp(m - m_new)
        v = tl.load(V + base + rn[:, None] * D + rd[None, :], mask=rn[:, None] < L, other=0.0)
        acc = acc * r[:, None] + tl.dot(p, v, input_precision="ieee")
        l = l * r + tl.sum(p, axis=1)
        m = m_new
    tl.store(O + base + rm[:, None] * D + rd[None, :], acc / l[:, None], mask=rm[:, None] < L)


class ModelNew(nn.Module):
    def forward(self, q, k, v, slopes):
        B, H, L, D = q.shape
        o = torch.empty_like(q)
        alibi_fwd[(triton.cdiv(L, 16), B * H)](q, k, v, slopes, o, 0.25, H, L, D, BM=16, BN=16, num_stages=2)
        return o
