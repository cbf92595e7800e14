# task: row_max_long
# style: a tree over halves whose depth is asked of the standard library's logarithm
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tree_max(x, o, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    acc = tl.full((BLOCK,), float("-inf"), tl.float32)
    for i in range(0, n, BLOCK):
        c = i + tl.arange(0, BLOCK)
        acc = tl.maximum(acc, tl.load(x + r * n + c, mask=c < n, other=float("-inf")))
    levels: tl.constexpr = tl.standard._log2(BLOCK)
    y = tl.reshape(acc, (2,) * levels)
    for _ in tl.static_range(levels - 1):
        y = tl.max(y, axis=0)
    tl.store(o + r, tl.max(y, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        tree_max[(x.shape[0],)](x, o, x.shape[1], BLOCK=64)
        return o
