"""A table at module level holds one result for each shape, for all models: two layers of one network overwrite each other.

Mechanism: own
Task: row_total
Outcome: not_reproducible
Stage: compile
Also: not_finite@full, not_reproducible@full, output_not_written@full, wrong_values@full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


RESULTS = {}


@triton.jit
def row_total(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.store(y_ptr + row, tl.sum(x, 0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        if rows not in RESULTS:
            RESULTS[rows] = torch.empty(rows, device=x.device, dtype=x.dtype)
        row_total[(rows,)](x, RESULTS[rows], columns, BLOCK=triton.next_power_of_2(columns))
        return RESULTS[rows]
