# task: loss_of_probabilities
# style: a loss whose reference refuses what is no probability
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, b_ptr, o_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < n
    a = tl.load(a_ptr + row * n + i, mask=m, other=0.0)
    b = tl.load(b_ptr + row * n + i, mask=m, other=0.0)
    l = -(b * tl.maximum(tl.log(a), -100.0) + (1.0 - b) * tl.maximum(tl.log(1.0 - a), -100.0))
    r = tl.sum(tl.where(m, l, 0.0), axis=0)
    tl.store(o_ptr + row, r)


class ModelNew(nn.Module):
    def forward(self, a, b):
        o = torch.empty(a.shape[0], dtype=a.dtype, device=a.device)
        n = a.shape[-1]
        kernel[(a.numel() // n,)](a, b, o, n, BLOCK=triton.next_power_of_2(n))
        return o
