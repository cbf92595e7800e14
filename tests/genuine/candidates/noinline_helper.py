# task: add
# style: a helper that is not inlined, multiple returns of a helper, print of a constant at compile time
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit(noinline=True)
def block_start(pid, size):
    return pid * size


@triton.jit
def pick(x, y, HEAVY: tl.constexpr):
    if HEAVY:
        return x + 0.5 * y
    return x


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = block_start(tl.program_id(0), BLOCK) + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    y = tl.load(y_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, pick(x, y, True), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), 512),)](x, y, out, x.numel(), BLOCK=512)
        return out
