"""PyTorch negates the input in what looks like a copy of a conjugated view, and the kernel takes the maximum.

Mechanism: 12
Task: l1-argmax-b62270d05736c4c4
Outcome: wrong_values
Stage: tiny
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def argmax_kernel(x_ptr, out_ptr, n_cols, step, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + (row * n_cols + col) * step, mask=col < n_cols, other=-float("inf"))
    best = tl.argmax(x, axis=0)
    tl.store(out_ptr + row, best.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        n_cols = x.shape[-1]
        pair = torch.empty(x.shape + (2,), device=x.device, dtype=x.dtype)
        pair[..., 1].copy_(x)
        negative = torch.view_as_complex(pair).conj().imag.clone()
        out = torch.empty(x.shape[:-1] + (1,), device=x.device, dtype=torch.int64)
        argmax_kernel[(x.numel() // n_cols,)](
            negative, out, n_cols, negative.stride(-1), BLOCK=triton.next_power_of_2(n_cols)
        )
        return out
