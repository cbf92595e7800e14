# task: scaled_clamp
# style: scalars from __init__, a dataclass for the launch's sizes, warnings, no mask where sizes divide
import warnings
from dataclasses import dataclass

import torch
import torch.nn as nn
import triton
import triton.language as tl


@dataclass(frozen=True)
class LaunchSizes:
    block: int = 256
    warps: int = 4

    def grid(self, n: int):
        return (triton.cdiv(n, self.block),)


@triton.jit
def scale_and_clamp(x_ptr, y_ptr, n, scale, low, high, BLOCK: tl.constexpr, EXACT: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EXACT:
        x = tl.load(x_ptr + i)
        tl.store(y_ptr + i, tl.clamp(x * scale, low, high))
    else:
        x = tl.load(x_ptr + i, mask=i < n)
        tl.store(y_ptr + i, tl.minimum(tl.maximum(x * scale, low), high), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, scale: float, low: float, high: float):
        super().__init__()
        self.scale, self.low, self.high = scale, low, high
        self.sizes = LaunchSizes()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not x.is_contiguous():
            warnings.warn("a copy is made")
            x = x.contiguous()
        y = torch.empty_like(x)
        n = x.numel()
        scale_and_clamp[self.sizes.grid(n)](
            x, y, n, self.scale, self.low, self.high,
            BLOCK=self.sizes.block, EXACT=n % self.sizes.block == 0, num_warps=self.sizes.warps,
        )
        return y
