# task: row_quant
# style: rounds by libdevice.rint (half to even, as torch.round does), int8 result and scales
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def _quantize_rowwise(x_ptr, output_ptr, output_scales, n_cols, P2: tl.constexpr):
    pid = tl.program_id(axis=0)
    block_start = pid * n_cols
    arange = tl.arange(0, P2)
    row_mask = arange < n_cols
    x = tl.load(x_ptr + block_start + arange, mask=row_mask, other=0.0)
    abs_x = tl.abs(x)
    max_val = tl.max(tl.where(row_mask, abs_x, 0), axis=0)
    scale = tl.div_rn(tl.maximum(max_val, 1e-6), 127.0)
    output = libdevice.rint(tl.div_rn(x, tl.broadcast_to(scale, [P2])))
    output = tl.minimum(tl.maximum(output, -128.0), 127.0)
    tl.store(output_ptr + block_start + arange, output.to(tl.int8), mask=row_mask)
    tl.store(output_scales + pid, scale)


class ModelNew(nn.Module):
    def forward(self, x):
        output = torch.empty(*x.shape, device=x.device, dtype=torch.int8)
        output_maxs = torch.empty(x.shape[0], 1, device=x.device, dtype=torch.float32)
        P2 = triton.next_power_of_2(x.shape[1])
        assert x.is_cuda and output.is_cuda
        _quantize_rowwise[(x.shape[0],)](x, output, output_maxs, x.shape[1], P2=P2)
        return output, output_maxs
