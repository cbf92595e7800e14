# task: embedding_with_positions
# style: two gathers of rows, the number of tokens flattened, an int64 row address
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def embed(ids, tok, pos, out, length, width, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    row = tl.load(ids + i).to(tl.int64)
    c = tl.arange(0, BLOCK)
    m = c < width
    t = tl.load(tok + row * width + c, mask=m)
    p = tl.load(pos + (i % length) * width + c, mask=m)
    tl.store(out + i * width + c, t + p, mask=m)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, length, width):
        super().__init__()
        self.tokens = nn.Parameter(torch.randn(vocabulary, width))
        self.positions = nn.Parameter(torch.randn(length, width))

    def forward(self, index):
        flat = index.reshape(-1)
        width = self.tokens.shape[1]
        out = torch.empty(*index.shape, width, dtype=self.tokens.dtype, device=index.device)
        embed[(flat.numel(),)](flat, self.tokens, self.positions, out, index.shape[-1], width, BLOCK=triton.next_power_of_2(width))
        return out
