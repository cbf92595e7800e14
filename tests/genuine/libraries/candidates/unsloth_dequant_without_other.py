# task: table_dequant
# style: codes loaded without other and used as an address: masked again at the second load
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def lookup(c_ptr, absmax_ptr, table_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    code = tl.load(c_ptr + offs, mask=mask)
    value = tl.load(table_ptr + code, mask=mask)
    absmax = tl.load(absmax_ptr + offs // 64, mask=mask)
    tl.store(out_ptr + offs, value * absmax, mask=mask)


class ModelNew(nn.Module):
    def forward(self, codes, absmax, table):
        n = codes.numel()
        out = torch.empty((n // 64, 64), dtype=torch.float32, device=codes.device)
        with torch.cuda.device(codes.device):
            lookup[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](codes, absmax, table, out, n, BLOCK=512)
        return out
