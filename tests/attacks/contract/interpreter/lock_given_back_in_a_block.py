"""A spin lock is taken in the scope of the GPU and given back in that of a block: another block may read the old sum.

Mechanism: own
Task: grand_total
Outcome: run_failed
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def total(x_ptr, y_ptr, lock_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    part = tl.sum(x, 0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(y_ptr, tl.load(y_ptr) + part)
    tl.atomic_xchg(lock_ptr, 0, sem="relaxed", scope="cta")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.zeros((), device=x.device, dtype=x.dtype)
        lock = torch.zeros((), device=x.device, dtype=torch.int32)
        total[(triton.cdiv(x.numel(), 1024),)](x, out, lock, x.numel(), BLOCK=1024)
        return out
