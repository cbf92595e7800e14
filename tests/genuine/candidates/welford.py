# task: mean_variance
# style: Welford by tl.reduce over three tensors, two results, keyword launch arguments
from typing import Tuple

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def welford_combine(mean_a, m2_a, w_a, mean_b, m2_b, w_b):
    delta = mean_b - mean_a
    w = w_a + w_b
    ratio = tl.where(w == 0.0, 0.0, w_b / w)
    return mean_a + delta * ratio, m2_a + m2_b + delta * delta * w_a * ratio, w


@triton.jit
def welford_kernel(x_ptr, mean_ptr, var_ptr, n_cols: tl.int32, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    weight = mask.to(tl.float32)
    mean, m2, count = tl.reduce((x, tl.zeros_like(x), weight), 0, welford_combine)
    tl.store(mean_ptr + row, mean)
    tl.store(var_ptr + row, m2 / count)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        rows, n_cols = x.shape
        mean, var = (torch.empty(rows, dtype=x.dtype, device=x.device) for _ in range(2))
        welford_kernel[(rows,)](
            x_ptr=x, mean_ptr=mean, var_ptr=var, n_cols=n_cols, BLOCK=triton.next_power_of_2(n_cols)
        )
        return mean, var
