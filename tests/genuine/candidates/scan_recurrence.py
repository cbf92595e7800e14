# task: linear_recurrence
# style: tl.associative_scan over a tuple with a custom combine (a first-order recurrence)
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def first_order(al, bl, ar, br):
    return al * ar, bl * ar + br


@triton.jit
def recurrence_kernel(a_ptr, b_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    a = tl.sigmoid(tl.load(a_ptr + row * n_cols + cols, mask=mask, other=0.0))
    b = tl.load(b_ptr + row * n_cols + cols, mask=mask, other=0.0)
    _, h = tl.associative_scan((a, b), 0, first_order)
    tl.store(out_ptr + row * n_cols + cols, h, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty_like(b)
        rows, n_cols = b.shape
        recurrence_kernel[(rows,)](a, b, out, n_cols, BLOCK=triton.next_power_of_2(n_cols))
        return out
