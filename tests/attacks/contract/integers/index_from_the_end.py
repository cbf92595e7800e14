"""x[-1] is the last row in the task's own language; the kernel reads a row before the matrix.

Mechanism: own
Task: rows_by_index
Outcome: out_of_bounds
Stage: full
Open: right by the contract: right kernels take an index as it is (gather_embedding)
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gather(x_ptr, i_ptr, o_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    of = tl.load(i_ptr + row)
    x = tl.load(x_ptr + of * columns + at, mask=at < columns, other=0.0)
    tl.store(o_ptr + row * columns + at, x * 2.0, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x, index):
        out = torch.empty(index.shape[0], x.shape[1], device=x.device, dtype=x.dtype)
        gather[(index.shape[0],)](x, index, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
