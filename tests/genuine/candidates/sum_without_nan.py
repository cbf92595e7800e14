# task: sum_without_nan
# style: NaN told by comparing a value with itself
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, o_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < n
    a = tl.load(a_ptr + row * n + i, mask=m, other=0.0)
    r = tl.sum(tl.where(a != a, 0.0, a), axis=0)
    tl.store(o_ptr + row, r)


class ModelNew(nn.Module):
    def forward(self, a):
        o = torch.empty(a.shape[0], dtype=a.dtype, device=a.device)
        n = a.shape[-1]
        kernel[(a.numel() // n,)](a, o, n, BLOCK=triton.next_power_of_2(n))
        return o
