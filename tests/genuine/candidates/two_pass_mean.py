# task: mean_all
# style: several kernels, a two-pass reduction over a partial buffer, a 0-d result
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def partial_squares(x_ptr, partial_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(axis=0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(partial_ptr + pid, tl.sum(x * x, axis=0))


@triton.jit
def finish(partial_ptr, out_ptr, num_partials, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    p = tl.load(partial_ptr + offs, mask=offs < num_partials, other=0.0)
    tl.store(out_ptr, tl.sum(p) / n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous().view(-1)
        n = x.numel()
        BLOCK = 4096
        num_partials = triton.cdiv(n, BLOCK)
        partial = torch.empty(num_partials, dtype=torch.float32, device=x.device)
        out = torch.empty((), dtype=x.dtype, device=x.device)
        partial_squares[(num_partials,)](x, partial, n, BLOCK=BLOCK)
        finish[(1,)](partial, out, num_partials, n, BLOCK=triton.next_power_of_2(num_partials))
        return out
