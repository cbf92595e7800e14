# task: softmax_of_long_rows
# style: online softmax in few long blocks, of scaled values
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, y_ptr, n, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    largest, total = -float("inf"), 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = scale * tl.load(x_ptr + row * n + at, mask=at < n, other=-float("inf"))
        new = tl.maximum(largest, tl.max(x, 0))
        total = total * tl.exp(largest - new) + tl.sum(tl.exp(x - new), 0)
        largest = new
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = scale * tl.load(x_ptr + row * n + at, mask=at < n)
        tl.store(y_ptr + row * n + at, tl.exp(x - largest) / total, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        softmax[(x.shape[0],)](x, y, x.shape[1], 0.125, BLOCK=4096)
        return y
