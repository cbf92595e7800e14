# task: matmul
# style: operands padded by F.pad and torch.cat to whole blocks, kernel without masks
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def product(a_ptr, b_ptr, c_ptr, N, K, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        a = tl.load(a_ptr + rows[:, None] * K + start + at[None, :])
        b = tl.load(b_ptr + (start + at[:, None]) * N + cols[None, :])
        total = tl.dot(a, b, total, input_precision="ieee")
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], total)


class ModelNew(nn.Module):
    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[1]
        a = F.pad(a, (0, -K % 32, 0, -M % 32))
        b = F.pad(b, (0, -N % 32))
        b = torch.cat([b, torch.zeros(-K % 32, b.shape[1], device=b.device, dtype=b.dtype)])
        c = torch.empty(a.shape[0], b.shape[1], device=a.device, dtype=a.dtype)
        product[(c.shape[0] // 32, c.shape[1] // 32)](a, b, c, b.shape[1], a.shape[1], BLOCK=32)
        return c[:M, :N].contiguous()
