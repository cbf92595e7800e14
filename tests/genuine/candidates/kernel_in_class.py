# task: rms_norm
# style: kernels as static methods of a class, launched by a class method
import torch
import torch.nn as nn
import triton
import triton.language as tl


class RMSNormOps:
    BLOCK_LIMIT = 65536

    @staticmethod
    @triton.jit
    def forward_kernel(x_ptr, w_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        cols = tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + eps)
        w = tl.load(w_ptr + cols, mask=mask)
        tl.store(y_ptr + row * n_cols + cols, x * scale * w, mask=mask)

    @classmethod
    def apply(cls, x, weight, eps):
        n_cols = x.shape[-1]
        block = triton.next_power_of_2(n_cols)
        if block > cls.BLOCK_LIMIT:
            raise RuntimeError("rows are too long")
        y = torch.empty_like(x)
        rows = x.numel() // n_cols
        cls.forward_kernel[(rows,)](x, weight, y, n_cols, eps, BLOCK=block)
        return y


class ModelNew(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return RMSNormOps.apply(x, self.weight, self.eps)
