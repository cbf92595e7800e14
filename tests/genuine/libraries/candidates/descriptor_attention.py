# task: attention
# style: tensor descriptors made in the kernel, an allocator set by the host, warm-up free persistent loop over heads
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attn(q_ptr, k_ptr, v_ptr, o_ptr, scale, Z, L, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    y_dim = Z * L
    desc_q = tl.make_tensor_descriptor(q_ptr, shape=[y_dim, D], strides=[D, 1], block_shape=[BM, D])
    desc_k = tl.make_tensor_descriptor(k_ptr, shape=[y_dim, D], strides=[D, 1], block_shape=[BN, D])
    desc_v = tl.make_tensor_descriptor(v_ptr, shape=[y_dim, D], strides=[D, 1], block_shape=[BN, D])
    head = tl.program_id(1)
    start = tl.program_id(0) * BM
    q = desc_q.load([head * L + start, 0])
    m_i = tl.full([BM], -float("inf"), tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for n in range(0, L, BN):
        k = desc_k.load([head * L + n, 0])
        s = tl.dot(q, k.T, input_precision="ieee") * scale
        s = tl.where((n + tl.arange(0, BN))[None, :] < L, s, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp(s - m_new[:, None])
        c = tl.exp(m_i - m_new)
        l_i = l_i * c + tl.sum(p, 1)
        v = desc_v.load([head * L + n, 0])
        acc = acc * c[:, None] + tl.dot(p, v, input_precision="ieee")
        m_i = m_new
    rows = start + tl.arange(0, BM)
    d = tl.arange(0, D)
    tl.store(o_ptr + (head * L + rows[:, None]) * D + d[None, :], acc / l_i[:, None], mask=rows[:, None] < L)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        B, H, L, D = q.shape

        def alloc_fn(size: int, alignment: int, stream):
            return torch.empty(size, device=q.device, dtype=torch.int8)

        triton.set_allocator(alloc_fn)
        o = torch.empty_like(q)
        attn[(triton.cdiv(L, 32), B * H)](q.contiguous(), k.contiguous(), v.contiguous(), o, D**-0.5, B * H, L, D, 32, 16)
        return o
