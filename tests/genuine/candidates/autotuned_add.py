# task: add
# style: autotuned with a key, configurations, warps and stages
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 1024}, num_warps=8, num_stages=1),
        triton.Config({"BLOCK": 512}, num_warps=4, num_stages=2),
        triton.Config({"BLOCK": 256}, num_warps=2),
    ],
    key=["numel"],
)
@triton.jit
def scaled_add(x_ptr, y_ptr, out_ptr, numel, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    offsets = start + tl.arange(0, BLOCK)
    mask = offsets < numel
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + 0.5 * y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        numel = out.numel()
        scaled_add[lambda META: (triton.cdiv(numel, META["BLOCK"]),)](x, y, out, numel)
        return out
