# task: swiglu
# style: chunk() gives two strided views of one input; row strides are passed
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def swiglu_kernel(gate_ptr, value_ptr, out_ptr, row_stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n
    g = tl.load(gate_ptr + row * row_stride + cols, mask=mask, other=0).to(tl.float32)
    v = tl.load(value_ptr + row * row_stride + cols, mask=mask, other=0)
    tl.store(out_ptr + row * n + cols, (g * tl.sigmoid(g)).cast(v.dtype) * v, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        gate, value = x.chunk(2, dim=-1)
        out = torch.empty(gate.shape, device=x.device, dtype=x.dtype)
        rows, n = out.shape
        swiglu_kernel[(rows, triton.cdiv(n, 128))](gate, value, out, gate.stride(0), n, BLOCK=128)
        return out
