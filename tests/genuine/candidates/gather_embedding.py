# task: embedding
# style: rows gathered by int64 indices, a 2-D block, nn.Embedding as holder of the table
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gather_kernel(index_ptr, table_ptr, out_ptr, count, width, BT: tl.constexpr, BW: tl.constexpr):
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    w = tl.arange(0, BW)
    token = tl.load(index_ptr + t, mask=t < count, other=0)
    mask = (t[:, None] < count) & (w[None, :] < width)
    rows = tl.load(table_ptr + token[:, None] * width + w[None, :], mask=mask)
    tl.store(out_ptr + t[:, None] * width + w[None, :], rows * 2.0, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)

    def forward(self, tokens):
        count, width = tokens.numel(), self.table.embedding_dim
        out = torch.empty((*tokens.shape, width), device=tokens.device, dtype=self.table.weight.dtype)
        gather_kernel[(triton.cdiv(count, 8),)](
            tokens, self.table.weight, out, count, width, BT=8, BW=triton.next_power_of_2(width)
        )
        return out
