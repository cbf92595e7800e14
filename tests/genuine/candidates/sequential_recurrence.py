# task: linear_recurrence
# style: a sequential loop over time in each program, block over rows, strides passed by host
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def step_kernel(a_ptr, b_ptr, out_ptr, rows, steps, s_row, s_step, BLOCK: tl.constexpr):
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = r < rows
    h = tl.zeros([BLOCK], dtype=tl.float32)
    for t in range(steps):
        at = r * s_row + t * s_step
        a = tl.load(a_ptr + at, mask=mask)
        b = tl.load(b_ptr + at, mask=mask)
        h = h / (1.0 + tl.exp(-a)) + b
        tl.store(out_ptr + at, h, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        out = b.new_empty(b.shape)
        step_kernel[(triton.cdiv(b.shape[0], 64),)](a, b, out, b.shape[0], b.shape[1], out.stride(0), out.stride(1), BLOCK=64)
        return out
