# task: topk_two
# style: the largest, then the largest of the rest: positions of equal values are whichever comes first
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def topk_kernel(x, values, ids, n, K: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + r * n + c, mask=c < n, other=-float("inf"))
    for k in tl.static_range(K):
        m = tl.max(v, axis=0)
        at = tl.argmax(v, axis=0)
        tl.store(values + r * K + k, m)
        tl.store(ids + r * K + k, at.to(tl.int64))
        v = tl.where(c == at, -float("inf"), v)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        values = torch.empty((rows, 2), device=x.device, dtype=x.dtype)
        ids = torch.empty((rows, 2), device=x.device, dtype=torch.int64)
        topk_kernel[(rows,)](x, values, ids, n, K=2, BLOCK=triton.next_power_of_2(n))
        return values, ids
