# task: attention_grouped
# style: query heads of one group share keys, padded to a multiple of 16 for tl.dot, int64 strides
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel_grouped(q_ptr, k_ptr, v_ptr, o_ptr, scale, Hq, Hk, L, GROUP: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    batch = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    start = tl.program_id(2) * (BM // GROUP)
    r = tl.arange(0, BM)
    pos = start + r // GROUP
    head = kv_head * GROUP + r % GROUP
    d = tl.arange(0, D)
    q_off = ((batch * Hq + head) * L + pos)[:, None] * D + d[None, :]
    q = tl.load(q_ptr + q_off, mask=(pos < L)[:, None], other=0.0)
    M = tl.full([BM], float("-inf"), dtype=tl.float32)
    Lsum = tl.full([BM], 1.0, dtype=tl.float32)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    for j in range(0, tl.cdiv(L, BN)):
        n = j * BN + tl.arange(0, BN)
        kv_off = (batch * Hk + kv_head) * L * D + n * D
        k = tl.load(k_ptr + kv_off[None, :] + d[:, None], mask=(n < L)[None, :], other=0.0)
        v = tl.load(v_ptr + kv_off[:, None] + d[None, :], mask=(n < L)[:, None], other=0.0)
        S = scale * tl.dot(q, k, input_precision="ieee")
        S = tl.where((n < L)[None, :], S, float("-inf"))
        m_j = tl.maximum(M, tl.max(S, axis=1))
        P = tl.exp(S - m_j[:, None])
        alpha = tl.exp(M - m_j)
        acc = acc * alpha[:, None]
        Lsum = Lsum * alpha + tl.sum(P, axis=1)
        M = m_j
        acc += tl.dot(P.to(v.dtype), v, input_precision="ieee")
    acc = acc / Lsum[:, None]
    tl.store(o_ptr + q_off, acc, mask=(pos < L)[:, None])


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        B, Hq, L, D = q.shape
        Hk = k.shape[1]
        group = Hq // Hk
        BM = 16 if group <= 16 else triton.next_power_of_2(group)
        o = torch.empty_like(q)
        kernel_grouped[(B, Hk, triton.cdiv(L, BM // group))](q, k, v, o, 0.25, Hq, Hk, L, GROUP=group, D=D, BM=BM, BN=16)
        return o
