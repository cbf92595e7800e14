# task: layer_norm
# style: Welford in a scalar-carrying loop; chained assignment and augmented assignment in the kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, w_ptr, b_ptr, y_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    base = x_ptr + row * n
    mean = 0.0
    m2 = 0.0
    count = 0.0
    for start in range(0, n, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < n
        x = tl.load(base + offs, mask=mask, other=0.0)
        size = tl.sum(mask.to(tl.float32), 0)
        block_mean = tl.sum(x, 0) / size
        centred = tl.where(mask, x - block_mean, 0.0)
        delta = block_mean - mean
        total = count + size
        m2 += tl.sum(centred * centred, 0) + delta * delta * count * size / total
        mean += delta * size / total
        count = total
    inv = tl.rsqrt(m2 / count + eps)
    for start in range(0, n, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < n
        x = tl.load(base + offs, mask=mask)
        w = tl.load(w_ptr + offs, mask=mask)
        b = tl.load(b_ptr + offs, mask=mask)
        tl.store(y_ptr + row * n + offs, tl.fma((x - mean) * inv, w, b), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, size, eps=1e-5):
        super().__init__()
        self.norm = nn.LayerNorm(size, eps=eps)

    def forward(self, x):
        y = torch.empty_like(x)
        w, b = self.norm.weight, self.norm.bias
        norm_kernel[(x.shape[0],)](x, w, b, y, x.shape[1], self.norm.eps, BLOCK=32)
        return y
