# task: maximum_all
# style: one launch, where the program that finishes last (an atomic counter) reduces the partial results
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def max_in_one_launch(x_ptr, partial_ptr, counter_ptr, out_ptr, n, num_blocks, BLOCK: tl.constexpr, NB: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial_ptr + pid, tl.max(tl.load(x_ptr + i, mask=i < n, other=float("-inf")), 0))
    tl.debug_barrier()
    done = tl.atomic_add(counter_ptr, 1, sem="acq_rel")
    if done == num_blocks - 1:
        j = tl.arange(0, NB)
        p = tl.load(partial_ptr + j, mask=j < num_blocks, other=float("-inf"), cache_modifier=".cg")
        tl.store(out_ptr, tl.max(p, 0))


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        num_blocks = triton.cdiv(n, 1024)
        partial = torch.empty(num_blocks, device=x.device, dtype=x.dtype)
        counter = torch.zeros(1, device=x.device, dtype=torch.int32)
        out = torch.empty([], device=x.device, dtype=x.dtype)
        max_in_one_launch[(num_blocks,)](
            x, partial, counter, out, n, num_blocks, BLOCK=1024, NB=triton.next_power_of_2(num_blocks)
        )
        return out
