# task: mean_under_a_mask
# style: counts of a block in eight bits, which a block of 64 never fills
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_under_mask(x_ptr, mask_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    count = 0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        kept = tl.load(mask_ptr + row * columns + at, mask=at < columns, other=0).to(tl.int8)
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
        total += tl.sum(x * kept.to(tl.float32), 0)
        pairs = tl.sum(tl.reshape(kept.to(tl.int32), (2, BLOCK // 2)), 1).to(tl.int8)
        count += tl.sum(pairs.to(tl.int32), 0)
    tl.store(out_ptr + row, total / tl.maximum(count, 1).to(tl.float32))


class ModelNew(nn.Module):
    def forward(self, x, mask):
        out = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        mean_under_mask[(x.shape[0],)](x, mask, out, x.shape[1], BLOCK=64)
        return out
