"""A head's dimension lies in one block of 32, which is fixed: what a larger one has beyond it is left out.

Mechanism: own
Task: l1-attention-9b7bc9b10e174b60
Outcome: wrong_values
Stage: full
Also: not_finite@full, output_not_written@full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attn_fwd(
    q_ptr, k_ptr, v_ptr, mask_ptr, out_ptr, seq, dim, scale, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    start = tl.program_id(1) * seq * dim
    rd = tl.arange(0, BD)
    q_mask = (rm[:, None] < seq) & (rd[None, :] < dim)
    q_offs = start + rm[:, None] * dim + rd[None, :]
    q = tl.load(q_ptr + q_offs, mask=q_mask, other=0.0)
    m_i = tl.full((BM,), -float("inf"), dtype=tl.float32)
    l_i = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, BD), dtype=tl.float32)
    for begin in range(0, seq, BN):
        rn = begin + tl.arange(0, BN)
        kv_mask = (rn[:, None] < seq) & (rd[None, :] < dim)
        kv_offs = start + rn[:, None] * dim + rd[None, :]
        k = tl.load(k_ptr + kv_offs, mask=kv_mask, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores += tl.load(
            mask_ptr + rm[:, None] * seq + rn[None, :], mask=(rm[:, None] < seq) & (rn[None, :] < seq), other=0.0
        )
        scores = tl.where(rn[None, :] < seq, scores, -float("inf"))
        new_top = tl.maximum(m_i, tl.max(scores, axis=1))
        p = tl.exp(scores - new_top[:, None])
        alpha = tl.exp(m_i - new_top)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        v = tl.load(v_ptr + kv_offs, mask=kv_mask, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p, v, input_precision="ieee")
        m_i = new_top
    tl.store(out_ptr + q_offs, acc / l_i[:, None], mask=q_mask)


class ModelNew(nn.Module):
    def forward(self, q, k, v, mask):
        seq, dim = q.shape[-2:]
        out = torch.empty_like(q)
        attn_fwd[(triton.cdiv(seq, 16), q.shape[0])](q, k, v, mask, out, seq, dim, 1.0 / dim**0.5, BM=16, BN=64, BD=32)
        return out
