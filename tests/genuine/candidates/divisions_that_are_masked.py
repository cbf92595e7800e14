# task: l1-unary-7fce4ae6f9f1a504
# style: divisions by zero, shifts beyond the width and remainders of floats in lanes that nothing is made of
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(a_ptr, out_ptr, n, columns, BLOCK: tl.constexpr):
    rows = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    width = tl.where(mask, columns, 0)
    offs = rows * columns + at % width + (at // width) * columns
    inside = mask & (offs < n)
    bit = tl.where(at < 32, 1 << at, 0)
    whole = at.to(tl.float32) % 1.0
    a = tl.load(a_ptr + offs, mask=inside, other=0.0)
    a = tl.where((bit & 1 == 1) | (whole == 0.0), a, 0.0)
    tl.store(out_ptr + offs, tl.where(a > 0, a, 0.0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, a):
        a = a.contiguous()
        out = torch.empty_like(a)
        n, columns = a.numel(), 1000
        relu_kernel[(triton.cdiv(n, columns),)](a, out, n, columns, BLOCK=1024)
        return out
