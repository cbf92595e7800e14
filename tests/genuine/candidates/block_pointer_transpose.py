# task: transpose_scale
# style: block pointers on both sides, tl.trans
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(x_ptr, y_ptr, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    r, c = tl.program_id(0) * BR, tl.program_id(1) * BC
    source = tl.make_block_ptr(x_ptr, (rows, cols), (cols, 1), (r, c), (BR, BC), (1, 0))
    target = tl.make_block_ptr(y_ptr, (cols, rows), (rows, 1), (c, r), (BC, BR), (1, 0))
    tile = tl.load(source, boundary_check=(0, 1))
    tl.store(target, 3.0 * tl.trans(tile) - 1.0, boundary_check=(0, 1))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty((cols, rows), dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(rows, 32), triton.cdiv(cols, 32))
        transpose_kernel[grid](x, y, rows, cols, 32, 32)
        return y
