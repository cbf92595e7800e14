"""The last of all programs sums the partial sums up, and tickets that say which it is are in the scope of a block.

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
def total(x_ptr, partial_ptr, ticket_ptr, y_ptr, n, programs, BLOCK: tl.constexpr, MOST: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(partial_ptr + pid, tl.sum(x, 0))
    ticket = tl.atomic_add(ticket_ptr, 1, scope="cta")
    if ticket == programs - 1:
        of = tl.arange(0, MOST)
        tl.store(y_ptr, tl.sum(tl.load(partial_ptr + of, mask=of < programs, other=0.0), 0))


class ModelNew(nn.Module):
    def forward(self, x):
        programs = triton.cdiv(x.numel(), 1024)
        partial = torch.empty(programs, device=x.device, dtype=x.dtype)
        ticket = torch.zeros((), device=x.device, dtype=torch.int32)
        out = torch.empty((), device=x.device, dtype=x.dtype)
        most = triton.next_power_of_2(programs)
        total[(programs,)](x, partial, ticket, out, x.numel(), programs, BLOCK=1024, MOST=most)
        return out
