# task: cosine_similarity
# style: three sums in one pass, computed constexprs, inferred dtypes
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cosine_kernel(x_ptr, y_ptr, out_ptr, n_cols, EPS: tl.constexpr, BLOCK: tl.constexpr):
    HALF: tl.constexpr = BLOCK // 2
    WIDTH: tl.constexpr = HALF * 2
    row = tl.program_id(0)
    cols = tl.arange(0, WIDTH)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask, 0.0)
    y = tl.load(y_ptr + row * n_cols + cols, mask, 0.0)
    xy, xx, yy = tl.sum(x * y, 0), tl.sum(x * x, 0), tl.sum(y * y, 0)
    denominator = tl.maximum(tl.sqrt(xx), EPS) * tl.maximum(tl.sqrt(yy), EPS)
    tl.store(out_ptr + row, tl.fdiv(xy, denominator))


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty(x.size(0), device=x.device, dtype=x.dtype)
        block = max(2, triton.next_power_of_2(x.size(1)))
        cosine_kernel[(x.size(0),)](x, y, out, x.size(1), EPS=1e-8, BLOCK=block)
        return out
