# task: row_quant
# style: values times 127 over the maximum: one step off where a quotient lies on a tie, as in many a library
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def quantize(x_ptr, q_ptr, s_ptr, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < n
    x = tl.load(x_ptr + r * n + c, mask=m, other=0.0)
    largest = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-6)
    q = libdevice.rint(x * (127.0 / largest))
    tl.store(q_ptr + r * n + c, tl.clamp(q, -128.0, 127.0).to(tl.int8), mask=m)
    tl.store(s_ptr + r, largest / 127.0)


class ModelNew(nn.Module):
    def forward(self, x):
        q = torch.empty_like(x, dtype=torch.int8)
        s = torch.empty((x.shape[0], 1), device=x.device, dtype=torch.float32)
        quantize[(x.shape[0],)](x, q, s, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return q, s
