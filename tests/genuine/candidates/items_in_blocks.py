# task: mean_of_embeddings
# style: items in blocks of 32, of which most rows have one
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_of_items(index_ptr, table_ptr, out_ptr, items, width, ITEMS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, items, ITEMS):
        item = start + tl.arange(0, ITEMS)
        index = tl.load(index_ptr + row * items + item, mask=item < items, other=0)
        mask = (item[:, None] < items) & (at[None, :] < width)
        total += tl.sum(tl.load(table_ptr + index[:, None] * width + at[None, :], mask=mask, other=0.0), 0)
    tl.store(out_ptr + row * width + at, total / items, mask=at < width)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)

    def forward(self, items):
        table = self.table.weight
        out = torch.empty((items.shape[0], table.shape[1]), device=items.device, dtype=table.dtype)
        block = triton.next_power_of_2(table.shape[1])
        mean_of_items[(items.shape[0],)](items, table, out, items.shape[1], table.shape[1], ITEMS=32, BLOCK=block)
        return out
