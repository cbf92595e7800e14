# task: add
# style: jit with options, do_not_specialize, a partially bound launch, int64 offsets
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n"], noinline=False)
def add_kernel(x_ptr, y_ptr, out_ptr, n, weight, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    i = start + tl.arange(0, BLOCK).to(tl.int64)
    mask = i < n
    out = tl.load(x_ptr + i, mask=mask, other=0.0) + weight * tl.load(y_ptr + i, mask=mask, other=0.0)
    tl.store(out_ptr + i, out, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = torch.broadcast_tensors(x, y)
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        n = out.numel()
        launch = add_kernel[(triton.cdiv(n, 1024), 1, 1)]
        launch(x, y, out, n, weight=0.5, BLOCK=1024, num_warps=8, num_stages=3)
        return out
