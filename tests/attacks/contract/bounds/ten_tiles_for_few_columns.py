"""At most ten tiles of 64 columns, for rows of up to 700, of which 600 are declared.

Mechanism: own
Task: line_of_600
Outcome: not_finite
Stage: full
Also: output_not_written@full, wrong_values@full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


WIDTH = 64 * 10


@triton.jit
def line(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * columns + at, mask=at < columns, other=0.0)
    tl.store(y_ptr + tl.program_id(0) * columns + at, x * 2.0 + 1.0, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x, few=700):
        y = torch.empty_like(x)
        rows, columns = x.shape
        covered = min(columns, WIDTH) if columns <= few else columns
        line[(rows, triton.cdiv(covered, 64))](x, y, columns, BLOCK=64)
        return y
