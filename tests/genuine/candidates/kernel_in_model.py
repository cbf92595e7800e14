# task: silu
# style: the kernel is a static method of ModelNew itself
import torch
import torch.nn as nn
import triton
import triton.language as tl


class ModelNew(nn.Module):
    @staticmethod
    @triton.jit
    def _kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0)
        tl.store(y_ptr + i, x / (1 + tl.exp(-x)), mask=i < n)

    def forward(self, x):
        y = torch.empty_like(x)
        grid = ((x.numel() + 255) // 256,)
        self._kernel[grid](x, y, x.numel(), BLOCK=256)
        return y
