# task: embedding_bag
# style: a loop over the bag with a mean at the end, indices loaded as scalars
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bag(table, index, out, width, PER_BAG: tl.constexpr, BLOCK: tl.constexpr):
    b = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < width
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in range(PER_BAG):
        row = tl.load(index + b * PER_BAG + i)
        acc += tl.load(table + row * width + c, mask=m, other=0.0)
    tl.store(out + b * width + c, acc / PER_BAG, mask=m)


class ModelNew(nn.Module):
    def forward(self, table, index):
        out = table.new_empty(index.shape[0], table.shape[1])
        bag[(index.shape[0],)](table, index, out, table.shape[1], PER_BAG=index.shape[1], BLOCK=triton.next_power_of_2(table.shape[1]))
        return out
