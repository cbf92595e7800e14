# task: rope_interleaved
# style: even and odd places loaded by strides, swapped partners by an index trick, a where for signs
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rotary_swap(OUT, X, COS, SIN, seqlen, nheads, D: tl.constexpr):
    pid = tl.program_id(0)
    pos = (pid // nheads) % seqlen
    rk = tl.arange(0, D)
    swap = rk + ((rk + 1) % 2) * 2 - 1
    half = rk // 2
    cos = tl.load(COS + pos * (D // 2) + half)
    sin = tl.load(SIN + pos * (D // 2) + half)
    x0 = tl.load(X + pid * D + rk)
    x1 = tl.load(X + pid * D + swap)
    out = tl.where(rk % 2 == 0, x0 * cos - x1 * sin, x0 * cos + x1 * sin)
    tl.store(OUT + pid * D + rk, out)


class ModelNew(nn.Module):
    def forward(self, x, cos, sin):
        batch, seqlen, nheads, headdim = x.shape
        assert headdim & (headdim - 1) == 0, "headdim must be a power of two"
        out = torch.empty_like(x)
        rotary_swap[(batch * seqlen * nheads,)](out, x, cos.contiguous(), sin.contiguous(), seqlen, nheads, headdim)
        return out
