"""The counter of programs that are done says nothing of what they have stored: its atomic is relaxed.

Mechanism: 27
Task: l1-unary-7fce4ae6f9f1a504
Outcome: run_failed
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(a_ptr, out_ptr, s_ptr, c_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask, other=0.0)
    tl.store(s_ptr + offs, tl.maximum(a, 0.0), mask=mask)
    tl.debug_barrier()
    done = tl.atomic_add(c_ptr, 1, sem="relaxed")
    if done == tl.num_programs(0) - 1:
        for i in range(0, n, BLOCK):
            at = i + tl.arange(0, BLOCK)
            tl.store(out_ptr + at, tl.load(s_ptr + at, mask=at < n, other=0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        s = torch.empty_like(a)
        count = torch.zeros(1, dtype=torch.int32, device=a.device)
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, s, count, n, BLOCK=1024)
        return out
