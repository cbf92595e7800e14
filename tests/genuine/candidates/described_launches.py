# task: matmul
# style: launch_metadata and repr for a profiler, and a launch by kernel.run
import torch
import torch.nn as nn
import triton
import triton.language as tl


def describe(grid, kernel, args):
    return {"name": f"{kernel.name} [M={args['M']}, N={args['N']}]", "flops": 2.0 * args["M"] * args["N"] * args["K"]}


def name_of(specialization):
    return f"product_{specialization.constants['BLOCK']}"


@triton.jit(launch_metadata=describe, repr=name_of)
def product(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        at = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * K + at[None, :], (rows[:, None] < M) & (at[None, :] < K), 0.0)
        b = tl.load(b_ptr + at[:, None] * N + cols[None, :], (at[:, None] < K) & (cols[None, :] < N), 0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], total, (rows[:, None] < M) & (cols[None, :] < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[1]
        c = torch.empty(M, N, device=a.device, dtype=a.dtype)
        grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
        product.run(a, b, c, M, N, K, BLOCK=32, grid=grid, warmup=False)
        return c
