# task: softcap
# style: tanh as 2 sigmoid(2x) - 1, the cap as a constexpr of the module
import torch
import torch.nn as nn
import triton
import triton.language as tl

CAP = tl.constexpr(30.0)


@triton.jit
def softcap_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    t = 2.0 * tl.sigmoid(2.0 * (x / CAP)) - 1.0
    tl.store(y_ptr + at, (t * CAP).to(y_ptr.dtype.element_ty), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        softcap_kernel[(triton.cdiv(x.numel(), 1024),)](x.contiguous(), y, x.numel(), BLOCK=1024)
        return y
