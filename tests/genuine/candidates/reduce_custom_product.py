# task: logsumexp
# style: tl.reduce over a tuple with a custom combine: maximum and rescaled sum together
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def combine(m0, s0, m1, s1):
    m = tl.maximum(m0, m1)
    return m, s0 * tl.exp(m0 - m) + s1 * tl.exp(m1 - m)


@triton.jit
def logsumexp_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-1e30)
    ones = tl.where(mask, 1.0, 0.0)
    m, s = tl.reduce((x, ones), axis=0, combine_fn=combine)
    tl.store(out_ptr + row, m + tl.log(s))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[:1], device=x.device, dtype=x.dtype)
        logsumexp_kernel[(len(x),)](x, out, x.shape[-1], BLOCK=triton.next_power_of_2(x.shape[-1]))
        return out
