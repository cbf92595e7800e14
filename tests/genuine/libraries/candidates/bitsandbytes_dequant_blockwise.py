# task: table_dequant
# style: a table of sixteen values gathered by code, one scale a block of 64
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def dequant_4bit(c_ptr, absmax_ptr, table_ptr, out_ptr, n, BLOCK: tl.constexpr, QUANT: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    code = tl.load(c_ptr + offs, mask=mask, other=0).to(tl.int32)
    value = tl.load(table_ptr + code, mask=mask, other=0.0)
    absmax = tl.load(absmax_ptr + offs // QUANT, mask=mask, other=1.0, eviction_policy="evict_last")
    tl.store(out_ptr + offs, value * absmax, mask=mask)


class ModelNew(nn.Module):
    def forward(self, codes, absmax, table):
        out = torch.empty(absmax.numel(), 64, dtype=absmax.dtype, device=absmax.device)
        n = codes.numel()
        dequant_4bit[(triton.cdiv(n, 256),)](codes, absmax, table, out, n, BLOCK=256, QUANT=64)
        return out
