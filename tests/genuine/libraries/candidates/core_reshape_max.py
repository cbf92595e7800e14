# task: row_max_long
# style: tl.core.reshape, as code that grew with the library writes it
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def folded_max(x, o, n, BLOCK: tl.constexpr, FOLD: tl.constexpr):
    r = tl.program_id(0)
    acc = tl.full((BLOCK // FOLD,), float("-inf"), tl.float32)
    for i in range(0, n, BLOCK):
        c = i + tl.arange(0, BLOCK)
        v = tl.load(x + r * n + c, mask=c < n, other=float("-inf"))
        v = tl.core.reshape(v, (BLOCK // FOLD, FOLD))
        acc = tl.maximum(acc, tl.max(v, axis=1))
    tl.store(o + r, tl.max(acc, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        folded_max[(x.shape[0],)](x, o, x.shape[1], BLOCK=512, FOLD=4)
        return o
