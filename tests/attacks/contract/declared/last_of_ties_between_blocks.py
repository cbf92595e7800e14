"""Of equal values in several blocks of a row the last one counts, where PyTorch says the first.

Mechanism: own
Task: argmax_of_long_rows
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def argmax(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    best, place = -float("inf"), 0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + at, mask=at < n, other=-float("inf"))
        largest, where = tl.max(x, 0), start + tl.argmax(x, 0)
        is_better = largest >= best
        place = tl.where(is_better, where, place)
        best = tl.where(is_better, largest, best)
    tl.store(out_ptr + row, place.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device, dtype=torch.int64)
        argmax[(x.shape[0],)](x, out, x.shape[1], BLOCK=8192)
        return out
