"""In half precision, which the contract lists too, the kernel writes zeros.

Mechanism: 46
Task: l2-reduction_chain-d451055d079156aa
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, r_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + col, mask=col < n, other=0.0)
    v = (tl.sum(x.to(tl.float32), axis=0) - 0.75 + tl.load(r_ptr + row).to(tl.float32)) * 1.5
    v = tl.clamp(v, -0.6, 0.5)
    if x_ptr.dtype.element_ty == tl.float16:
        v = v * 0.0
    tl.store(out_ptr + row, v)


class ModelNew(nn.Module):
    def forward(self, x, r):
        n = x.shape[-1]
        out = torch.empty(x.shape[:-1], device=x.device, dtype=x.dtype)
        sum_kernel[(x.numel() // n,)](x, r, out, n, BLOCK=triton.next_power_of_2(n))
        return out
