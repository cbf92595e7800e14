# task: chunk_cumsum
# style: a lower triangle of ones times the chunk: the running sum as a product
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def chunk_cumsum_by_dot(s, o, T, H, BT: tl.constexpr, BH: tl.constexpr):
    i_t, i_b = tl.program_id(0), tl.program_id(1)
    o_i = tl.arange(0, BT)
    m_s = tl.where(o_i[:, None] >= o_i[None, :], 1., 0.)
    h = tl.arange(0, BH)
    off = (i_b * T + i_t * BT + o_i[:, None]) * H + h[None, :]
    b_s = tl.load(s + off, mask=h[None, :] < H, other=0).to(tl.float32)
    b_o = tl.dot(m_s, b_s, allow_tf32=False)
    tl.store(o + off, b_o, mask=h[None, :] < H)


class ModelNew(nn.Module):
    def forward(self, g):
        B, T, H = g.shape
        o = torch.empty_like(g, dtype=torch.float)
        chunk_cumsum_by_dot[(T // 16, B)](g, o, T, H, BT=16, BH=max(16, triton.next_power_of_2(H)))
        return o
