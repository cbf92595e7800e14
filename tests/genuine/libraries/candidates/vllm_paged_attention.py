# task: paged_gather_attention
# style: block tables of int64, one program a sequence, a loop over pages, masks for the end of the table
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def paged_attention_2d(out_ptr, q_ptr, k_ptr, v_ptr, table_ptr, scale, pages, PAGE: tl.constexpr, D: tl.constexpr):
    seq = tl.program_id(0)
    d = tl.arange(0, D)
    slot = tl.arange(0, PAGE)
    q = tl.load(q_ptr + seq * D + d).to(tl.float32)
    m = float("-inf")
    l = 0.0
    acc = tl.zeros([D], dtype=tl.float32)
    for j in range(0, pages):
        physical = tl.load(table_ptr + seq * pages + j).to(tl.int64)
        off = physical * PAGE * D + slot[:, None] * D + d[None, :]
        k = tl.load(k_ptr + off)
        s = tl.sum(k * q[None, :], axis=1) * scale
        m_new = tl.maximum(m, tl.max(s, axis=0))
        p = tl.exp(s - m_new)
        alpha = tl.exp(m - m_new)
        v = tl.load(v_ptr + off)
        acc = acc * alpha + tl.sum(p[:, None] * v, axis=0)
        l = l * alpha + tl.sum(p, axis=0)
        m = m_new
    tl.store(out_ptr + seq * D + d, acc / l)


class ModelNew(nn.Module):
    def forward(self, q, k_cache, v_cache, tables):
        out = torch.empty_like(q)
        paged_attention_2d[(q.shape[0],)](out, q, k_cache, v_cache, tables, 0.25, tables.shape[1], PAGE=k_cache.shape[1], D=q.shape[1])
        return out
