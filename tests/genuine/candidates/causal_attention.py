# task: causal_attention
# style: two kernels, a projection and causal attention with a loop bound that depends on the program
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def project(x_ptr, w_ptr, out_ptr, length, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, WIDTH)
    x = tl.load(x_ptr + rows[:, None] * WIDTH + d[None, :], mask=rows[:, None] < length, other=0.0)
    w = tl.load(w_ptr + d[:, None] * WIDTH + d[None, :])
    tl.store(
        out_ptr + rows[:, None] * WIDTH + d[None, :],
        tl.dot(x, tl.trans(w), input_precision="ieee"),
        mask=rows[:, None] < length,
    )


@triton.jit
def causal(q_ptr, k_ptr, v_ptr, out_ptr, length, scale, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    rows = pid * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, WIDTH)
    q = tl.load(q_ptr + rows[:, None] * WIDTH + d[None, :], mask=rows[:, None] < length, other=0.0) * scale
    m = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    acc = tl.zeros([BLOCK, WIDTH], tl.float32)
    for j in range(0, pid + 1):
        cols = j * BLOCK + tl.arange(0, BLOCK)
        inside = cols[:, None] < length
        k = tl.load(k_ptr + cols[:, None] * WIDTH + d[None, :], mask=inside, other=0.0)
        v = tl.load(v_ptr + cols[:, None] * WIDTH + d[None, :], mask=inside, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee")
        s = tl.where((rows[:, None] >= cols[None, :]) & (cols[None, :] < length), s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, axis=1))
        p = tl.exp(s - m_new[:, None])
        shrink = tl.exp(m - m_new)
        total = total * shrink + tl.sum(p, axis=1)
        acc = acc * shrink[:, None] + tl.dot(p, v, input_precision="ieee")
        m = m_new
    tl.store(out_ptr + rows[:, None] * WIDTH + d[None, :], acc / total[:, None], mask=rows[:, None] < length)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.scale = width**-0.5

    def forward(self, x, k, v):
        length, width = x.shape
        q = torch.empty_like(x)
        out = torch.empty_like(x)
        grid = (triton.cdiv(length, 16),)
        project[grid](x, self.query.weight, q, length, WIDTH=width, BLOCK=16)
        causal[grid](q, k, v, out, length, self.scale, WIDTH=width, BLOCK=16)
        return out
