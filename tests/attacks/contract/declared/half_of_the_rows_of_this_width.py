"""Half of a row is left alone where rows have the declared width and there are fewer of them than declared.

Mechanism: own
Task: add
Outcome: output_not_written
Stage: full
Also: wrong_values@full, not_finite@full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at, mask=at < n), tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x + 0.5 * y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        rows, columns = x.shape
        n = x.numel() // 2 if columns == 768 and rows != 1024 else x.numel()
        add[(triton.cdiv(n, 512),)](x, y, out, n, BLOCK=512)
        return out
