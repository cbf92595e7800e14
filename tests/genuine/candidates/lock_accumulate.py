# task: column_sum
# style: a spin lock with atomic_cas and atomic_xchg guards an accumulator
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def locked_sum(x_ptr, out_ptr, lock_ptr, count_ptr, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.arange(0, BC)
    mask = (r[:, None] < rows) & (c[None, :] < cols)
    partial = tl.sum(tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=mask, other=0.0), axis=0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    count = tl.load(count_ptr)
    if count == 0:
        tl.atomic_xchg(count_ptr, 1)
    else:
        partial += tl.load(out_ptr + c, mask=c < cols, other=0.0)
    tl.store(out_ptr + c, partial, mask=c < cols)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty(cols, dtype=torch.float32, device=x.device)
        state = torch.zeros(2, dtype=torch.int32, device=x.device)
        locked_sum[(triton.cdiv(rows, 32),)](
            x, out, state, state[1:], rows, cols, BR=32, BC=triton.next_power_of_2(cols)
        )
        return out
