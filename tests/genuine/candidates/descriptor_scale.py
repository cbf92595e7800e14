# task: scale_aligned
# style: tensor descriptors made in the kernel, with an allocator for their memory
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_by_descriptor(x_ptr, y_ptr, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    x_desc = tl.make_tensor_descriptor(x_ptr, shape=[rows, cols], strides=[cols, 1], block_shape=[BR, BC])
    y_desc = tl.make_tensor_descriptor(y_ptr, shape=[rows, cols], strides=[cols, 1], block_shape=[BR, BC])
    r = tl.program_id(0) * BR
    c = tl.program_id(1) * BC
    tile = x_desc.load([r, c])
    y_desc.store([r, c], 2.0 * tile + 1.0)


def alloc(size: int, alignment: int, stream):
    return torch.empty(size, device="cuda", dtype=torch.int8)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty_like(x)
        triton.set_allocator(alloc)
        scale_by_descriptor[(triton.cdiv(rows, 16), triton.cdiv(cols, 32))](x, y, rows, cols, BR=16, BC=32)
        return y
