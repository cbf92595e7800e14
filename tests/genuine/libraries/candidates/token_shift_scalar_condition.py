# task: token_shift
# style: a branch on the position: the first row of a sequence is loaded by another path
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def shift(x, mix, o, T, D, BD: tl.constexpr):
    i = tl.program_id(0)
    c = tl.program_id(1) * BD + tl.arange(0, BD)
    m = c < D
    cur = tl.load(x + i * D + c, mask=m, other=0)
    w = tl.load(mix + c, mask=m, other=0)
    if i % T == 0:
        prev = tl.zeros_like(cur)
    else:
        prev = tl.load(x + i * D - D + c, mask=m, other=0)
    tl.store(o + i * D + c, cur + (prev - cur) * w, mask=m)


class ModelNew(nn.Module):
    def forward(self, x, mix):
        B, T, D = x.shape
        o = torch.empty_like(x)
        shift[(B * T, triton.cdiv(D, 64))](x, mix, o, T, D, BD=64)
        return o
