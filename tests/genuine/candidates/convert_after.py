# task: to_half
# style: computes in float32, and the host converts the result with .to
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def double_it(x_ptr, y_ptr, n: "tl.int32", BLOCK: "tl.constexpr"):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=mask) * 2.0, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        double_it[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y.to(torch.float16)
