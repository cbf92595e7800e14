# task: bfloat16_add_norm
# style: bfloat16 in and out, sums in float32, the sum of x and residual rounded as the reference rounds it
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_norm(x_ptr, r_ptr, w_ptr, o_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < n
    x = tl.load(x_ptr + row * n + c, mask=m, other=0.0)
    r = tl.load(r_ptr + row * n + c, mask=m, other=0.0)
    s = (x + r).to(tl.float32)
    w = tl.load(w_ptr + c, mask=m, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(s * s, 0) / n + eps)
    tl.store(o_ptr + row * n + c, (s * rstd * w).to(o_ptr.dtype.element_ty), mask=m)


class ModelNew(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x, residual):
        o = torch.empty_like(x)
        add_norm[(x.shape[0],)](x, residual, self.weight, o, x.shape[1], 1e-6, BLOCK=triton.next_power_of_2(x.shape[1]))
        return o
