# task: cumsum
# style: chunks numbered by an atomic, each waiting for the one before
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x_ptr, y_ptr, state_ptr, flag_ptr, ticket_ptr, cols, CHUNKS, BLOCK: tl.constexpr):
    t = tl.atomic_add(ticket_ptr, 1)
    row = t // CHUNKS
    chunk = t % CHUNKS
    at = chunk * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    total = tl.sum(x, 0)
    before = 0.0
    if chunk > 0:
        while tl.atomic_add(flag_ptr + t - 1, 0, sem="acquire") == 0:
            pass
        before = tl.load(state_ptr + t - 1)
    tl.store(state_ptr + t, before + total)
    tl.debug_barrier()
    tl.atomic_xchg(flag_ptr + t, 1, sem="release")
    tl.store(y_ptr + row * cols + at, tl.cumsum(x, 0) + before, mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty_like(x)
        chunks = triton.cdiv(cols, 128)
        state = torch.empty(rows * chunks, device=x.device)
        flags = torch.zeros(rows * chunks, dtype=torch.int32, device=x.device)
        ticket = torch.zeros(1, dtype=torch.int32, device=x.device)
        k[(rows * chunks,)](x, y, state, flags, ticket, cols, chunks, BLOCK=128)
        return y
