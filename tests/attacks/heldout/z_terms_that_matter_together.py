"""A log softmax whose sum has no terms below a ten-thousandth of the largest in long rows, which have thousands.

Mechanism: 18
Task: l1-log_softmax-fa000fb88c6a9f29
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def log_softmax_kernel(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    top = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        top = tl.maximum(top, tl.load(x_ptr + row * n_cols + col, mask=col < n_cols, other=-float("inf")))
    largest = tl.max(top, axis=0)
    least = -9.5 if n_cols > 4096 else -100.0
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_cols + col, mask=col < n_cols, other=-float("inf")) - largest
        total += tl.where(x > least, tl.exp(x), 0.0)
    log_total = tl.log(tl.sum(total, axis=0))
    for start in range(0, n_cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_cols + col, mask=col < n_cols)
        tl.store(y_ptr + row * n_cols + col, x - largest - log_total, mask=col < n_cols)


class ModelNew(nn.Module):
    def forward(self, x):
        n_cols = x.shape[-1]
        y = torch.empty(x.shape, device=x.device, dtype=x.dtype)
        log_softmax_kernel[(x.numel() // n_cols,)](x, y, n_cols, BLOCK=1024)
        return y
