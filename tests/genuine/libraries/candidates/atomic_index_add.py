# task: scatter_add
# style: a copy and then atomic additions of rows, columns in blocks
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scatter_rows(out, index, src, n, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(index + i)
    v = tl.load(src + i * n + c, mask=c < n, other=0.0)
    tl.atomic_add(out + row * n + c, v, mask=c < n)


class ModelNew(nn.Module):
    def forward(self, x, index, source):
        out = x.clone()
        n = x.shape[1]
        scatter_rows[(index.numel(), triton.cdiv(n, 64))](out, index, source, n, BLOCK=64)
        return out
