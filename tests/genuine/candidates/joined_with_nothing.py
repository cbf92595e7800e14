# task: relu
# style: what is joined begins with an empty tensor, which has no address
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.maximum(tl.load(x_ptr + at, mask=at < n), 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        joined = torch.empty(0, device=x.device)
        for part in x.reshape(-1).chunk(4):
            joined = torch.cat([joined, part])
        y = torch.empty_like(x)
        relu_kernel[(triton.cdiv(n, 1024),)](joined, y, n, BLOCK=1024)
        return y
