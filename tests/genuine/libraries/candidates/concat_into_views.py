# task: concat_heads
# style: each operand is stored into a slice of the result by its own launch, strides passed
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def put(src, dst, src_stride, dst_stride, width, factor, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(src + r * src_stride + c, mask=c < width, other=0.0)
    tl.store(dst + r * dst_stride + c, v * factor, mask=c < width)


class ModelNew(nn.Module):
    def forward(self, a, b):
        wa, wb = a.shape[-1], b.shape[-1]
        out = torch.empty(*a.shape[:-1], wa + wb, device=a.device, dtype=a.dtype)
        rows = out.numel() // (wa + wb)
        flat = out.view(rows, wa + wb)
        for src, dst, width, factor in ((a, flat[:, :wa], wa, 1.0), (b, flat[:, wa:], wb, 2.0)):
            put[(rows,)](src, dst, width, dst.stride(0), width, factor, BLOCK=triton.next_power_of_2(width))
        return out
