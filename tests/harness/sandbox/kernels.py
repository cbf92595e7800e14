"""Candidates in the styles that people write, for the recording and running tests."""

HEADER = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

"""

POINTWISE = (
    HEADER
    + """
@triton.jit
def double_kernel(x_ptr, y_ptr, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * factor, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        double_kernel[(triton.cdiv(n, 128),)](x, y, n, 2.0, BLOCK=128, num_warps=2)
        return y
"""
)

AUTOTUNED = (
    HEADER
    + """
@triton.autotune(configs=[triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128})], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y_ptr + at, tl.load(x_ptr + at) * 2.0)
    else:
        tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        double_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n)
        return y
"""
)

AUTOGRAD_AND_HELPERS = (
    HEADER
    + """
@triton.jit
def twice(value):
    return value * 2.0


@triton.jit
def apply_kernel(x_ptr, y_ptr, n, FUNCTION: tl.constexpr, DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = FUNCTION(tl.load(x_ptr + at, mask=at < n).to(DTYPE))
    tl.store(y_ptr + at, value, mask=at < n)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        with torch.cuda.device(x.device):
            apply_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), FUNCTION=twice, DTYPE=tl.float32, BLOCK=64)
        return y


class ModelNew(nn.Module):
    def forward(self, x):
        return Double.apply(x)
"""
)

PERSISTENT_ATOMIC = (
    HEADER
    + """
@triton.jit
def add_kernel(x_ptr, y_ptr, n, num_programs, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    while start < n:
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x_ptr + at, mask=at < n, other=0.0)
        tl.atomic_add(y_ptr + at, value, mask=at < n)
        tl.atomic_add(y_ptr + at, value, mask=at < n)
        start += num_programs * BLOCK


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.zeros(x.shape, device=x.device, dtype=x.dtype)
        count = min(torch.cuda.get_device_properties(x.device).multi_processor_count, 2)
        add_kernel[(count,)](x, y, x.numel(), count, BLOCK=64)
        return y
"""
)

BLOCK_POINTER = (
    HEADER
    + """
@triton.jit
def double_kernel(x_ptr, y_ptr, M, N, stride, BM: tl.constexpr, BN: tl.constexpr):
    x_block = tl.make_block_ptr(x_ptr, (M, N), (stride, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    y_block = tl.make_block_ptr(y_ptr, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    for start in range(0, N, BN):
        tl.store(y_block, tl.load(x_block, boundary_check=(0, 1)) * 2.0, boundary_check=(0, 1))
        x_block = tl.advance(x_block, (0, BN))
        y_block = tl.advance(y_block, (0, BN))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.reshape(-1, x.shape[-1]).contiguous()
        y = torch.empty_like(x)
        double_kernel[(triton.cdiv(x.shape[0], 16),)](x, y, x.shape[0], x.shape[1], x.stride(0), BM=16, BN=16)
        return y
"""
)

TWO_KERNELS_AND_LAYOUT = (
    HEADER
    + """
class Kernels:
    @staticmethod
    @triton.jit
    def add_itself(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x_ptr + at, mask=at < n)
        tl.store(y_ptr + at, value + value, mask=at < n)


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        turned = x.t().contiguous()
        between = torch.full_like(turned, 3.0)
        n = turned.numel()
        Kernels.add_itself[(triton.cdiv(n, 64),)](turned, between, n, BLOCK=64)
        y = turned.new_empty(turned.shape)
        copy_kernel[(triton.cdiv(n, 64),)](between, y, n, BLOCK=64)
        result = torch.empty(x.shape, device=x.device, dtype=x.dtype)
        result.copy_(y.t())
        return result
"""
)

DOUBLING = {
    "pointwise": POINTWISE,
    "autotuned with heuristics": AUTOTUNED,
    "autograd function, helper and dtype as constexpr": AUTOGRAD_AND_HELPERS,
    "persistent with atomics": PERSISTENT_ATOMIC,
    "block pointers": BLOCK_POINTER,
    "two kernels and layout operations": TWO_KERNELS_AND_LAYOUT,
}
"""Each returns twice its (two-dimensional) input."""

LINEAR = (
    HEADER
    + """
@triton.jit
def linear_kernel(x_ptr, w_ptr, b_ptr, shift_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        inner = start + tl.arange(0, BK)
        x_mask = (rows[:, None] < M) & (inner[None, :] < K)
        w_mask = (columns[None, :] < N) & (inner[:, None] < K)
        x = tl.load(x_ptr + rows[:, None] * K + inner[None, :], mask=x_mask, other=0.0)
        w = tl.load(w_ptr + columns[None, :] * K + inner[:, None], mask=w_mask, other=0.0)
        total += tl.dot(x, w)
    total += tl.load(b_ptr + columns, mask=columns < N, other=0.0)[None, :]
    total += tl.load(shift_ptr)
    tl.store(y_ptr + rows[:, None] * N + columns[None, :], total, mask=(rows[:, None] < M) & (columns[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.shift = torch.tensor([0.5])

    def forward(self, x):
        (M, K), N = x.shape, self.linear.weight.shape[0]
        y = torch.empty((M, N), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))
        shift = self.shift.to(x.device)
        linear_kernel[grid](x, self.linear.weight, self.linear.bias, shift, y, M, N, K, BM=16, BN=16, BK=16)
        return y
"""
)

SOFTMAX_LIKE = (
    HEADER
    + """
@triton.jit
def softmax_kernel(x_ptr, y_ptr, N, B: tl.constexpr):
    at = tl.arange(0, B)
    row = tl.program_id(0) * N
    x = tl.load(x_ptr + row + at, mask=at < N, other=-float("inf"))
    x = tl.exp((x - tl.max(x, axis=0)).to(tl.float32)).to(x.dtype)
    x = tl.where(x > 0.01, x * 2.0 + 1, -x)
    tl.store(y_ptr + row + at, x / tl.sum(x, axis=0), mask=at < N)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, y, x.shape[1], B=triton.next_power_of_2(x.shape[1]))
        return y
"""
)
