# task: attention_causal
# style: EVEN heuristics, -inf masks guarded by where, lse kept beside the result, loops that end at the diagonal
import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.heuristics({"EVEN_M": lambda args: args["seqlen"] % args["BLOCK_M"] == 0, "EVEN_N": lambda args: args["seqlen"] % args["BLOCK_N"] == 0})
@triton.jit
def _fwd_kernel(Q, K, V, Out, Lse, softmax_scale, stride_bh, seqlen, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr,
                BLOCK_HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    start_m = tl.program_id(0)
    off_hb = tl.program_id(1)
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, BLOCK_HEADDIM)
    q_ptrs = Q + off_hb * stride_bh + offs_m[:, None] * BLOCK_HEADDIM + offs_d[None, :]
    k_ptrs = K + off_hb * stride_bh + offs_n[:, None] * BLOCK_HEADDIM + offs_d[None, :]
    v_ptrs = V + off_hb * stride_bh + offs_n[:, None] * BLOCK_HEADDIM + offs_d[None, :]
    lse_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    acc_o = tl.zeros([BLOCK_M, BLOCK_HEADDIM], dtype=tl.float32)
    if EVEN_M:
        q = tl.load(q_ptrs)
    else:
        q = tl.load(q_ptrs, mask=offs_m[:, None] < seqlen, other=0.0)
    end_n = tl.minimum((start_m + 1) * BLOCK_M, seqlen)
    for start_n in range(0, end_n, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        if EVEN_N:
            k = tl.load(k_ptrs + start_n * BLOCK_HEADDIM)
        else:
            k = tl.load(k_ptrs + start_n * BLOCK_HEADDIM, mask=(start_n + offs_n)[:, None] < seqlen, other=0.0)
        qk = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
        qk += tl.dot(q, tl.trans(k), input_precision="ieee")
        if not EVEN_N:
            qk += tl.where((start_n + offs_n)[None, :] < seqlen, 0, float("-inf"))
        qk += tl.where(offs_m[:, None] >= (start_n + offs_n)[None, :], 0, float("-inf"))
        m_ij = tl.maximum(tl.max(qk, 1) * softmax_scale, lse_i)
        p = tl.exp(qk * softmax_scale - m_ij[:, None])
        l_ij = tl.sum(p, 1)
        acc_o_scale = tl.exp(m_i - m_ij)
        acc_o = acc_o * acc_o_scale[:, None]
        if EVEN_N:
            v = tl.load(v_ptrs + start_n * BLOCK_HEADDIM)
        else:
            v = tl.load(v_ptrs + start_n * BLOCK_HEADDIM, mask=(start_n + offs_n)[:, None] < seqlen, other=0.0)
        acc_o += tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m_i = m_ij
        l_i_new = tl.exp(lse_i - m_ij) + l_ij
        lse_i = m_ij + tl.log(l_i_new)
    o_scale = tl.exp(m_i - lse_i)
    acc_o = acc_o * o_scale[:, None]
    tl.store(Lse + off_hb * seqlen + offs_m, lse_i, mask=offs_m < seqlen)
    tl.store(Out + off_hb * stride_bh + offs_m[:, None] * BLOCK_HEADDIM + offs_d[None, :], acc_o, mask=offs_m[:, None] < seqlen)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        batch, nheads, seqlen, d = q.shape
        assert d <= 128, "FlashAttention only support head dimensions up to 128"
        q, k, v = [x if x.stride(-1) == 1 else x.contiguous() for x in [q, k, v]]
        softmax_scale = 1.0 / math.sqrt(d)
        lse = torch.empty((batch, nheads, seqlen), device=q.device, dtype=torch.float32)
        o = torch.empty_like(q)
        grid = lambda META: (triton.cdiv(seqlen, META["BLOCK_M"]), batch * nheads)
        _fwd_kernel[grid](q, k, v, o, lse, softmax_scale, q.stride(1), seqlen, BLOCK_HEADDIM=d, BLOCK_M=32, BLOCK_N=32,
                          num_warps=4, num_stages=1)
        return o
