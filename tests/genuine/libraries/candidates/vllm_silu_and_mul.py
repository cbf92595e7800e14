# task: silu_and_mul
# style: halves of one row, masked loads without other, is_cuda asserted, output allocated by shape arithmetic
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu_and_mul_kernel(x_ptr, out_ptr, stride_x, stride_o, d, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < d
    gate = tl.load(x_ptr + token * stride_x + cols, mask=mask).to(tl.float32)
    up = tl.load(x_ptr + token * stride_x + d + cols, mask=mask)
    gate = gate / (1.0 + tl.exp(-gate))
    tl.store(out_ptr + token * stride_o + cols, gate.to(up.dtype) * up, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        assert x.is_cuda, "only on a GPU"
        d = x.shape[-1] // 2
        output_shape = x.shape[:-1] + (d,)
        out = torch.empty(output_shape, dtype=x.dtype, device=x.device)
        rows = x.numel() // x.shape[-1]
        silu_and_mul_kernel[(rows, triton.cdiv(d, 256))](x, out, x.stride(-2), out.stride(-2), d, BLOCK=256)
        return out
