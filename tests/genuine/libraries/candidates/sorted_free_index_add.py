# task: scatter_add
# style: one program a row of the result looks for its sources: no atomics, a loop over all indices
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gather_sources(x, index, src, out, added, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < n
    acc = tl.load(x + r * n + c, mask=m, other=0.0)
    for i in range(0, added):
        if tl.load(index + i) == r:
            acc += tl.load(src + i * n + c, mask=m, other=0.0)
    tl.store(out + r * n + c, acc, mask=m)


class ModelNew(nn.Module):
    def forward(self, x, index, source):
        out = torch.empty_like(x)
        gather_sources[(x.shape[0],)](x, index, source, out, index.shape[0], x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
