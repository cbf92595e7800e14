# task: add
# style: grids and blocks are kept by the whole shape, in a dictionary of the model
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    here = tl.program_id(0) * columns + at
    x, y = tl.load(x_ptr + here, mask=at < columns), tl.load(y_ptr + here, mask=at < columns)
    tl.store(out_ptr + here, x + 0.5 * y, mask=at < columns)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.launches = {}

    def forward(self, x, y):
        out = torch.empty_like(x)
        shape = tuple(x.shape)
        if shape not in self.launches:
            self.launches[shape] = (shape[0],), triton.next_power_of_2(shape[1])
        grid, block = self.launches[shape]
        add[grid](x, y, out, shape[1], BLOCK=block)
        return out
