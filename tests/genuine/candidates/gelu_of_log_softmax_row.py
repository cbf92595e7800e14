# task: gelu_of_log_softmax
# style: a row a program, the error function as it is written in the paper
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    x = tl.load(x_ptr + row * cols + at, mask=inside, other=-float("inf"))
    shifted = x - tl.max(x, axis=0)
    y = shifted - tl.log(tl.sum(tl.exp(shifted), axis=0))
    tl.store(out_ptr + row * cols + at, 0.5 * y * (1.0 + tl.erf(y * 0.7071067811865476)), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty_like(x)
        row_kernel[(rows,)](x, out, cols, BLOCK=triton.next_power_of_2(cols))
        return out
