# task: bucketize_by_edges
# The bucket is the number of smaller edges, whose order no bisection needs; the model's own rise.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def count_smaller_edges(x_ptr, edges_ptr, bucket_ptr, num_elements, num_edges, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < num_elements
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    count = tl.zeros((BLOCK,), dtype=tl.int64)
    for edge in range(num_edges):
        count += (tl.load(edges_ptr + edge) < x).to(tl.int64)
    tl.store(bucket_ptr + at, count, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, edges):
        super().__init__()
        self.register_buffer("edges", torch.linspace(-2.0, 2.0, edges))

    def forward(self, x):
        x = x.contiguous()
        buckets = torch.empty(x.shape, device=x.device, dtype=torch.int64)
        grid = (triton.cdiv(x.numel(), 512),)
        count_smaller_edges[grid](x, self.edges, buckets, x.numel(), self.edges.numel(), BLOCK=512)
        return buckets
