# task: row_max_long
# style: a scalar masked load with other=0 beside a loop: chunks that a program does not have count as none
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def strided_max(x, lengths, o, rows, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    length = tl.load(lengths + r, mask=r < rows, other=0)
    best = float("-inf")
    for i in range(0, length, BLOCK):
        c = i + tl.arange(0, BLOCK)
        v = tl.load(x + r * n + c, mask=c < length, other=float("-inf"))
        best = tl.maximum(best, tl.max(v, axis=0))
    tl.store(o + r, best, mask=r < rows)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        lengths = torch.full((rows,), n, device=x.device, dtype=torch.int32)
        o = torch.empty(rows, device=x.device, dtype=x.dtype)
        strided_max[(triton.next_power_of_2(rows),)](x, lengths, o, rows, n, BLOCK=256)
        return o
