# task: row_sum
# style: a table of kernels from which the host chooses by shape; both paths occur at every size
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def head_kernel(x_ptr, out_ptr, stride, HEAD: tl.constexpr):
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * stride + tl.arange(0, HEAD))
    tl.store(out_ptr + row, tl.sum(x, axis=0))


@triton.jit
def tail_kernel(x_ptr, out_ptr, n_cols, stride, head, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.load(out_ptr + row)
    for start in range(head, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=0.0), axis=0)
    tl.store(out_ptr + row, total)


KERNELS = {"head": head_kernel, "tail": tail_kernel}


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n_cols = x.shape
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        head = 1 << (n_cols.bit_length() - 1)
        KERNELS["head"][(rows,)](x, out, x.stride(0), HEAD=head)
        if head < n_cols:
            KERNELS["tail"][(rows,)](x, out, n_cols, x.stride(0), head, BLOCK=64)
        return out
