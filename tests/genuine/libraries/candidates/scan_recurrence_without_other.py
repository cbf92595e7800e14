# task: gated_recurrence
# style: loads without other in a recurrence whose lanes are masked at the store
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def recur(x, g, o, T, D, BD: tl.constexpr):
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    base = tl.program_id(1) * T * D
    mask = d < D
    h = tl.zeros((BD,), tl.float32)
    for t in range(T):
        off = base + t * D + d
        gate = tl.load(g + off, mask=mask)
        h = h / (1 + tl.exp(-gate)) + tl.load(x + off, mask=mask)
        tl.store(o + off, h, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, g):
        B, T, D = x.shape
        o = torch.empty(B, T, D, dtype=x.dtype, device=x.device)
        recur[(triton.cdiv(D, 32), B)](x.contiguous(), g.contiguous(), o, T, D, 32)
        return o
