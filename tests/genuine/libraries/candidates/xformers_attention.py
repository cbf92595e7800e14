# task: attention
# style: strides of every axis as arguments, a split over keys with a second kernel that merges by logsumexp
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _fwd_kernel_splitK(Q, K, V, Out_splitK, Metadata, stride_qz, stride_qh, stride_qm, stride_osk_zh, stride_osk_s, stride_osk_m,
                       stride_mzh, stride_m2, stride_ms, H, N_CTX, BLOCK_N_PER_SPLIT, sm_scale,
                       BLOCK_M: tl.constexpr, BLOCK_DMODEL: tl.constexpr, BLOCK_N: tl.constexpr):
    start_m = tl.program_id(0)
    off_zh = tl.program_id(1)
    splitk_idx = tl.program_id(2)
    off_z = off_zh // H
    off_h = off_zh % H
    lo = splitk_idx * BLOCK_N_PER_SPLIT
    hi = tl.minimum((splitk_idx + 1) * BLOCK_N_PER_SPLIT, N_CTX)
    base = off_z * stride_qz + off_h * stride_qh
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_DMODEL)
    q = tl.load(Q + base + offs_m[:, None] * stride_qm + offs_d[None, :], mask=offs_m[:, None] < N_CTX, other=0.0)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_DMODEL], tl.float32)
    for start_n in range(lo, hi, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        ok = offs_n < hi
        k = tl.load(K + base + offs_n[None, :] * stride_qm + offs_d[:, None], mask=ok[None, :], other=0.0)
        v = tl.load(V + base + offs_n[:, None] * stride_qm + offs_d[None, :], mask=ok[:, None], other=0.0)
        qk = tl.dot(q, k, input_precision="ieee") * sm_scale
        qk = tl.where(ok[None, :], qk, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        alpha = tl.exp(m_i - m_new)
        p = tl.exp(qk - m_new[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p, v, input_precision="ieee")
        m_i = m_new
    m_mask = offs_m < N_CTX
    tl.store(Out_splitK + off_zh * stride_osk_zh + splitk_idx * stride_osk_s + offs_m[:, None] * stride_osk_m + offs_d[None, :], acc, mask=m_mask[:, None])
    tl.store(Metadata + off_zh * stride_mzh + splitk_idx * stride_ms + offs_m, m_i, mask=m_mask)
    tl.store(Metadata + off_zh * stride_mzh + stride_m2 + splitk_idx * stride_ms + offs_m, l_i, mask=m_mask)


@triton.jit
def _splitK_reduce(Out_splitK, Metadata, Out, stride_osk_zh, stride_osk_s, stride_osk_m, stride_mzh, stride_m2, stride_ms, M,
                   SPLIT: tl.constexpr, D: tl.constexpr):
    off_zh = tl.program_id(0)
    off_m = tl.program_id(1)
    s = tl.arange(0, SPLIT)
    d = tl.arange(0, D)
    l_m = tl.load(Metadata + off_zh * stride_mzh + s * stride_ms + off_m)
    l_sum = tl.load(Metadata + off_zh * stride_mzh + stride_m2 + s * stride_ms + off_m)
    acc = tl.load(Out_splitK + off_zh * stride_osk_zh + s[:, None] * stride_osk_s + off_m * stride_osk_m + d[None, :])
    g_m = tl.max(l_m, axis=0)
    alpha = tl.exp(l_m - g_m)
    g_sum = tl.sum(l_sum * alpha, axis=0)
    out = tl.sum(acc * alpha[:, None], axis=0) / g_sum
    tl.store(Out + (off_zh * M + off_m) * D + d, out)


class ModelNew(nn.Module):
    SPLIT_K = 2

    def forward(self, q, k, v):
        B, H, M, D = q.shape
        split = self.SPLIT_K if M > 1 else 1
        per_split = triton.cdiv(M, split)
        if per_split * (split - 1) >= M:
            split = 1
        o_split = torch.empty([B * H, split, M, D], dtype=torch.float32, device=q.device)
        meta = torch.empty([B * H, 2, split, M], dtype=torch.float32, device=q.device)
        out = torch.empty_like(q)
        _fwd_kernel_splitK[(triton.cdiv(M, 32), B * H, split)](
            q, k, v, o_split, meta, q.stride(0), q.stride(1), q.stride(2), o_split.stride(0), o_split.stride(1), o_split.stride(2),
            meta.stride(0), meta.stride(1), meta.stride(2), H, M, per_split, D**-0.5, BLOCK_M=32, BLOCK_DMODEL=D, BLOCK_N=32)
        _splitK_reduce[(B * H, M)](o_split, meta, out, o_split.stride(0), o_split.stride(1), o_split.stride(2), meta.stride(0),
                                   meta.stride(1), meta.stride(2), M, SPLIT=split, D=D)
        return out
