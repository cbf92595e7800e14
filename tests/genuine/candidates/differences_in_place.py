# task: differences
# style: works in place on its neighbours, with a barrier between loads and stores
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def subtract(y_ptr, columns, BLOCK: tl.constexpr):
    row = y_ptr + tl.program_id(0) * columns
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        here = tl.load(row + at, mask=at < columns, other=0.0)
        after = tl.load(row + at + 1, mask=at + 1 < columns, other=0.0)
        tl.debug_barrier()
        tl.store(row + at, after - here, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.clone()
        subtract[(y.shape[0],)](y, y.shape[1], BLOCK=256)
        return y
