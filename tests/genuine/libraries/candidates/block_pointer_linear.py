# task: linear_bias
# style: block pointers with order (0, 1) for the transposed weight, bias as a masked row, a raise that no constexpr reaches
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_kernel(x_ptr, w_ptr, b_ptr, y_ptr, M, N, K, HAS_BIAS: tl.constexpr, ACT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    x_block = tl.make_block_ptr(x_ptr, shape=(M, K), strides=(K, 1), offsets=(pid_m * BM, 0), block_shape=(BM, BK), order=(1, 0))
    w_block = tl.make_block_ptr(w_ptr, shape=(K, N), strides=(1, K), offsets=(0, pid_n * BN), block_shape=(BK, BN), order=(0, 1))
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        x = tl.load(x_block, boundary_check=(0, 1), padding_option="zero")
        w = tl.load(w_block, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(x, w, acc)
        x_block = tl.advance(x_block, (0, BK))
        w_block = tl.advance(w_block, (BK, 0))
    if HAS_BIAS:
        offs = pid_n * BN + tl.arange(0, BN)
        acc += tl.load(b_ptr + offs, mask=offs < N, other=0.0)[None, :]
    if ACT == "none":
        out = acc
    elif ACT == "relu":
        out = tl.maximum(acc, 0.0)
    else:
        raise ValueError("unknown activation")
    y_block = tl.make_block_ptr(y_ptr, shape=(M, N), strides=(N, 1), offsets=(pid_m * BM, pid_n * BN), block_shape=(BM, BN), order=(1, 0))
    tl.store(y_block, out.to(y_ptr.dtype.element_ty), boundary_check=(0, 1))


class ModelNew(nn.Module):
    def __init__(self, size_in, size_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size_out, size_in) * 0.1)
        self.bias = nn.Parameter(torch.zeros(size_out))

    def forward(self, x):
        M, K = x.shape
        N = self.weight.shape[0]
        y = x.new_empty((M, N))
        linear_kernel[(triton.cdiv(M, 32), triton.cdiv(N, 32))](x, self.weight, self.bias, y, M, N, K, self.bias is not None, "none", 32, 32, 32)
        return y
