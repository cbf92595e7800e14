# task: log_softmax
# style: autotune over heuristics over jit
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune([triton.Config({}, num_warps=w) for w in (2, 4, 8)], key=["N"], use_cuda_graph=False)
@triton.heuristics(values={"BLOCK_N": lambda a: triton.next_power_of_2(a["N"])})
@triton.jit
def kernel(X, Y, stride_x: tl.int64, stride_y: tl.int64, N: tl.int32, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offs = tl.arange(0, BLOCK_N)
    x = tl.load(X + row * stride_x + offs, mask=offs < N, other=float("-inf")).to(tl.float32)
    z = x - tl.max(x, 0)
    y = z - tl.log(tl.sum(tl.exp(z), 0))
    tl.store(Y + row * stride_y + offs, y, mask=offs < N)


def log_softmax(x: torch.Tensor) -> torch.Tensor:
    """Row-wise log-softmax of a matrix."""
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](x, y, x.stride(0), y.stride(0), x.shape[1])
    return y


class ModelNew(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            return log_softmax(x)
