# task: layer_norm
# style: a workspace is kept between calls, allocated before the result the first time
import torch
import torch.nn as nn
import triton
import triton.language as tl

_WORKSPACES = {}


def workspace(rows, device):
    if (rows, str(device)) not in _WORKSPACES:
        _WORKSPACES[rows, str(device)] = torch.empty(2, rows, device=device, dtype=torch.float32)
    return _WORKSPACES[rows, str(device)]


@triton.jit
def statistics(x_ptr, mean_ptr, scale_ptr, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    mean = tl.sum(x) / cols
    centred = tl.where(at < cols, x - mean, 0.0)
    tl.store(mean_ptr + row, mean)
    tl.store(scale_ptr + row, tl.rsqrt(tl.sum(centred * centred) / cols + eps))


@triton.jit
def normalise(x_ptr, mean_ptr, scale_ptr, w_ptr, b_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    x = tl.load(x_ptr + row * cols + at, mask=mask)
    y = (x - tl.load(mean_ptr + row)) * tl.load(scale_ptr + row)
    tl.store(y_ptr + row * cols + at, y * tl.load(w_ptr + at, mask=mask) + tl.load(b_ptr + at, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)

    def forward(self, x):
        rows, cols = x.shape
        mean, scale = workspace(rows, x.device)
        y = torch.empty_like(x)
        block = triton.next_power_of_2(cols)
        statistics[(rows,)](x, mean, scale, cols, self.norm.eps, BLOCK=block)
        normalise[(rows,)](x, mean, scale, self.norm.weight, self.norm.bias, y, cols, BLOCK=block)
        return y
