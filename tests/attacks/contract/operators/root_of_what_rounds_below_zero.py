"""The root of |a|^2 + |b|^2 - 2ab without a bound: NaN where a point is among the others, whose number is another.

Mechanism: own
Task: distances_of_points
Outcome: not_finite
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def distances(a_ptr, b_ptr, out_ptr, M, N, K, BLOCK: tl.constexpr, AXES: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    products = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    of_a = tl.zeros((BLOCK,), dtype=tl.float32)
    of_b = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, K, AXES):
        k = start + tl.arange(0, AXES)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + n[None, :] * K + k[:, None], mask=(n[None, :] < N) & (k[:, None] < K), other=0.0)
        products += tl.dot(a, b, input_precision="ieee")
        of_a += tl.sum(a * a, axis=1)
        of_b += tl.sum(b * b, axis=0)
    out = tl.sqrt(of_a[:, None] + of_b[None, :] - 2.0 * products)
    tl.store(out_ptr + m[:, None] * N + n[None, :], out, mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def forward(self, points, others):
        (M, K), N = points.shape, others.shape[0]
        out = torch.empty((M, N), device=points.device, dtype=points.dtype)
        grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
        distances[grid](points, others, out, M, N, K, BLOCK=32, AXES=32)
        return out
