# task: row_max_long
# style: a row by several programs, atomics on the maximum of floats that a fill has made -inf
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def partial_max(x, o, n, BLOCK: tl.constexpr):
    r, b = tl.program_id(0), tl.program_id(1)
    c = b * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + r * n + c, mask=c < n, other=-float("inf"))
    tl.atomic_max(o + r, tl.max(v, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        o = torch.full((rows,), float("-inf"), device=x.device, dtype=x.dtype)
        partial_max[(rows, triton.cdiv(n, 1024))](x, o, n, BLOCK=1024)
        return o
