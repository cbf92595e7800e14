# task: linear_gelu
# style: nested helper jit functions, an activation passed as a constexpr function, nn.Linear for its parameters only
import torch.nn as nn
import triton
import triton.language as tl

SQRT_HALF: tl.constexpr = tl.constexpr(0.7071067811865476)


@triton.jit
def phi(x):
    return 0.5 * (1.0 + tl.erf(x * SQRT_HALF))


@triton.jit
def gelu(x):
    """Exact GELU."""
    return x * phi(x)


@triton.jit
def identity(x):
    return x


@triton.jit
def tile_product(a_ptrs, b_ptrs, mask_a, mask_b, acc):
    a = tl.load(a_ptrs, mask=mask_a, other=0.0)
    b = tl.load(b_ptrs, mask=mask_b, other=0.0)
    return tl.dot(a, b, acc=acc, input_precision="ieee")


@triton.jit
def linear_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, M, N, K, stride_xm, stride_wn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr,
):
    rm = tl.program_id(1) * BM + tl.arange(0, BM)
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    for k0 in range(0, K, BK):
        rk = k0 + tl.arange(0, BK)
        acc = tile_product(
            x_ptr + rm[:, None] * stride_xm + rk[None, :],
            w_ptr + rn[None, :] * stride_wn + rk[:, None],
            (rm[:, None] < M) & (rk[None, :] < K),
            (rn[None, :] < N) & (rk[:, None] < K),
            acc,
        )
    if HAS_BIAS:
        acc += tl.load(b_ptr + rn, mask=rn < N, other=0.0)[None, :]
    acc = ACTIVATION(acc)
    tl.store(y_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


def linear(x, weight, bias=None, activation=identity):
    M, K = x.shape
    N = weight.shape[0]
    y = x.new_empty(M, N)
    grid = (triton.cdiv(N, 32), triton.cdiv(M, 32), 1)
    linear_kernel[grid](
        x, weight, bias, y, M, N, K, x.stride(0), weight.stride(0),
        BM=32, BN=32, BK=32, HAS_BIAS=bias is not None, ACTIVATION=activation,
    )
    return y


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return linear(x, self.linear.weight, self.linear.bias, gelu)
