# task: swiglu
# style: a flat kernel with a flag for 64-bit indices and a grid from a lambda of meta
import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCK_SIZE = 1024
INT32_SAFETY_BUFFER = 2**31 - BLOCK_SIZE * 4


@triton.jit
def _fg_kernel(e, g, h, n_elements, BLOCK_SIZE: tl.constexpr, LONG_INDEXING: tl.constexpr,):
    block_idx = tl.program_id(0)
    if LONG_INDEXING:
        offsets = block_idx.to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE).to(tl.int64)
        n_elements = tl.cast(n_elements, tl.int64)
    else:
        offsets = block_idx * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    e_row = tl.load(e + offsets, mask = mask, other = 0).to(tl.float32)
    g_row = tl.load(g + offsets, mask = mask, other = 0)
    f_row = e_row * tl.sigmoid(e_row)
    f_row = f_row.to(g_row.dtype)
    h_row = f_row * g_row
    tl.store(h + offsets, h_row, mask = mask)


class ModelNew(nn.Module):
    def forward(self, e, g):
        n_elements = e.numel()
        h = torch.empty_like(e)
        grid = lambda meta: (triton.cdiv(n_elements, meta['BLOCK_SIZE']),)
        with torch.cuda.device(e.device):
            _fg_kernel[grid](e, g, h, n_elements, BLOCK_SIZE = BLOCK_SIZE,
                             LONG_INDEXING = 0 if n_elements <= INT32_SAFETY_BUFFER else 1)
        return h
