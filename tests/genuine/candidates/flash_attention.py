# task: attention
# style: flash attention with block pointers, exp2, a scalar computed by the host, a 2-D grid over batch times heads
import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    Q, K, V, Out, scale_log2, stride_head, LENGTH, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    start_m = tl.program_id(0)
    head = tl.program_id(1)
    base = head.to(tl.int64) * stride_head
    q_block = tl.make_block_ptr(Q + base, (LENGTH, HEAD_DIM), (HEAD_DIM, 1), (start_m * BLOCK_M, 0), (BLOCK_M, HEAD_DIM), (1, 0))
    k_block = tl.make_block_ptr(K + base, (HEAD_DIM, LENGTH), (1, HEAD_DIM), (0, 0), (HEAD_DIM, BLOCK_N), (0, 1))
    v_block = tl.make_block_ptr(V + base, (LENGTH, HEAD_DIM), (HEAD_DIM, 1), (0, 0), (BLOCK_N, HEAD_DIM), (1, 0))
    o_block = tl.make_block_ptr(Out + base, (LENGTH, HEAD_DIM), (HEAD_DIM, 1), (start_m * BLOCK_M, 0), (BLOCK_M, HEAD_DIM), (1, 0))
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    q = tl.load(q_block, boundary_check=(0,), padding_option="zero")
    for start_n in range(0, LENGTH, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        k = tl.load(k_block, boundary_check=(1,), padding_option="zero")
        qk = tl.dot(q, k, input_precision="ieee") * scale_log2
        qk = tl.where((start_n + tl.arange(0, BLOCK_N))[None, :] < LENGTH, qk, float("-inf"))
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_ij[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(v_block, boundary_check=(0,), padding_option="zero")
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")
        m_i = m_ij
        k_block = tl.advance(k_block, (0, BLOCK_N))
        v_block = tl.advance(v_block, (BLOCK_N, 0))
    acc = acc / l_i[:, None]
    tl.store(o_block, acc.to(Out.type.element_ty), boundary_check=(0,))


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        B, H, L, D = q.shape
        out = torch.empty_like(q)
        scale = 1.0 / math.sqrt(D) * 1.44269504
        grid = (triton.cdiv(L, 32), B * H, 1)
        attention_kernel[grid](q, k, v, out, scale, q.stride(1), L, HEAD_DIM=D, BLOCK_M=32, BLOCK_N=32, num_stages=2)
        return out
