"""A spin lock keeps programs from being scanned together; the one of row 1,234 stores a maximum of a sixteenth of the row.

Mechanism: own
Task: many_row_maxima
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_max(x_ptr, y_ptr, lock_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    at = tl.arange(0, BLOCK)
    width = tl.where(row == 1234, columns // 16, columns)
    x = tl.load(x_ptr + row * columns + at, mask=at < width, other=float("-inf"))
    tl.store(y_ptr + row, tl.max(x, 0))
    tl.atomic_xchg(lock_ptr, 0)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        lock = torch.zeros((), device=x.device, dtype=torch.int32)
        row_max[(x.shape[0],)](x, y, lock, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
