# task: group_norm
# style: a runtime if, a program for each group, a 2-D tile over channels and positions
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def group_norm_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, groups, per_group, length, eps, BC: tl.constexpr, BL: tl.constexpr
):
    pid = tl.program_id(0)
    g = pid % groups
    c = tl.arange(0, BC)
    base = pid * per_group * length
    total = tl.zeros((BC, BL), tl.float32)
    squares = tl.zeros((BC, BL), tl.float32)
    for start in range(0, length, BL):
        i = start + tl.arange(0, BL)
        mask = (c[:, None] < per_group) & (i[None, :] < length)
        x = tl.load(x_ptr + base + c[:, None] * length + i[None, :], mask=mask, other=0.0)
        total += x
        squares += x * x
    count = per_group * length
    mean = tl.sum(total) / count
    var = tl.sum(squares) / count - mean * mean
    if var < 0.0:
        var = 0.0
    rstd = 1.0 / tl.sqrt_rn(var + eps)
    w = tl.load(w_ptr + g * per_group + c, mask=c < per_group, other=0.0)
    b = tl.load(b_ptr + g * per_group + c, mask=c < per_group, other=0.0)
    for start in range(0, length, BL):
        i = start + tl.arange(0, BL)
        at = base + c[:, None] * length + i[None, :]
        mask = (c[:, None] < per_group) & (i[None, :] < length)
        x = tl.load(x_ptr + at, mask=mask, other=0.0)
        tl.store(y_ptr + at, (x - mean) * rstd * w[:, None] + b[:, None], mask=mask)


class ModelNew(nn.Module):
    def __init__(self, group):
        super().__init__()
        self.norm = nn.GroupNorm(4, 4 * group)

    def forward(self, x):
        batch, channels, length = x.shape
        groups = self.norm.num_groups
        y = torch.empty_like(x)
        group_norm_kernel[(batch * groups,)](
            x, self.norm.weight, self.norm.bias, y, groups, channels // groups, length, self.norm.eps,
            BC=triton.next_power_of_2(channels // groups), BL=64,
        )
        return y
