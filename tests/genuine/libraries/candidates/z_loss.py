# task: logsumexp_z
# style: two results from one pass, an online maximum in scalar variables
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def lse_z(x, lse_out, z_out, n, coefficient, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    m = -float("inf")
    d = 0.0
    for i in range(0, n, BLOCK):
        c = i + tl.arange(0, BLOCK)
        v = tl.load(x + r * n + c, mask=c < n, other=-float("inf"))
        new = tl.maximum(m, tl.max(v, axis=0))
        d = d * tl.exp(m - new) + tl.sum(tl.exp(v - new), axis=0)
        m = new
    lse = m + tl.log(d)
    tl.store(lse_out + r, lse)
    tl.store(z_out + r, lse * lse * coefficient)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        lse, z = (torch.empty(rows, device=x.device, dtype=x.dtype) for _ in range(2))
        lse_z[(rows,)](x, lse, z, n, 1e-4, BLOCK=256)
        return lse, z
