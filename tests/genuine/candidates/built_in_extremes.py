# task: l1-unary-7fce4ae6f9f1a504
# style: max and min of blocks, numbers from tuples, helpers and conditions, a flag and a stride of 1 as arguments
import torch
import torch.nn as nn
import triton
import triton.language as tl

SHIFT = tl.constexpr(3)


@triton.jit
def bounds(largest):
    return 0.0, largest


@triton.jit
def part(step, PARTS: tl.constexpr):
    if step >= PARTS:
        return PARTS - 1
    return step


@triton.jit
def relu_kernel(a_ptr, out_ptr, n, stride, is_plain, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    width: tl.constexpr = BLOCK // PARTS
    low, high = bounds(float("inf"))
    limit = min(n, (tl.program_id(0) + 1) * BLOCK)
    scale = 1.0 if is_plain else 2.0
    for step in tl.range(0, PARTS):
        start = tl.program_id(0) * BLOCK + (part(step, PARTS) * width << (8 % SHIFT) >> 2)
        offs = tl.multiple_of(start, 1) + tl.arange(0, width)
        mask = offs < limit
        a = tl.load(a_ptr + offs * stride, mask=mask, other=low)
        a = min(max(a, low), high) * scale
        tl.store(out_ptr + offs * stride, a, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        a = a.contiguous()
        out = torch.empty_like(a)
        n = a.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, n, 1, True, BLOCK=1024, PARTS=4)
        return out
