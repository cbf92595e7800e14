"""A kernel and a model that a zygote runs once before it forks, so that children find imports and caches warm."""

from __future__ import annotations

import hashlib
from typing import Any

CANDIDATE = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_kernel(x_ptr, w_ptr, b_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        inner = step * BK + tl.arange(0, BK)
        x_mask = (rows[:, None] < M) & (inner[None, :] < K)
        w_mask = (columns[None, :] < N) & (inner[:, None] < K)
        x = tl.load(x_ptr + rows[:, None] * K + inner[None, :], mask=x_mask, other=0.0)
        w = tl.load(w_ptr + columns[None, :] * K + inner[:, None], mask=w_mask, other=0.0)
        total += tl.dot(x, w, input_precision="ieee")
    total += tl.load(b_ptr + columns, mask=columns < N, other=0.0)[None, :]
    peak = tl.max(total, axis=1)
    total = tl.exp(total - peak[:, None]) + tl.sum(total, axis=1)[:, None] + tl.min(total, axis=1)[:, None]
    total = tl.sigmoid(total) + tl.argmax(total, axis=1)[:, None]
    tl.store(y_ptr + rows[:, None] * N + columns[None, :], total, mask=(rows[:, None] < M) & (columns[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        x = x.t().contiguous().t().contiguous()
        rows, inner = x.shape
        columns = self.linear.weight.shape[0]
        y = torch.empty((rows, columns), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(rows, 16), triton.cdiv(columns, 16))
        linear_kernel[grid](x, self.linear.weight, self.linear.bias, y, rows, columns, inner, BM=16, BN=16, BK=16)
        return y
"""


def make_plan(source: str) -> dict[str, Any]:
    """Return a run request, as plain data, that makes the interpreter meet the kernel once."""
    text = source[source.index("@triton.jit") : source.index("class ModelNew")].rstrip() + "\n"
    names = {"x_ptr": 0, "w_ptr": 1, "b_ptr": 2, "y_ptr": 3}
    view = {"offset": 0, "shape": [4], "stride": [1], "dtype": "float32"}
    pointers = [{"name": name, "kind": "view", "view": {**view, "buffer": at}} for name, at in names.items()]
    sizes = {"M": 4, "N": 1, "K": 1, "BM": 16, "BN": 16, "BK": 16}
    integers = [
        {"name": name, "kind": "int", "number": size, "constexpr": name in ("BM", "BN", "BK")}
        for name, size in sizes.items()
    ]
    buffer = {"kind": "temporary", "name": "", "dtype": "float32", "num_elements": 64}
    kernel = {
        "qualname": "linear_kernel",
        "source_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "signature": [["M", "i32"]],
        "options": [["num_warps", 4]],
        "accesses": [{"parameter": "x_ptr", "kind": "load", "layout": "", "loop": 0}],
    }
    launch = {"step": "Launch", "kernel": 0, "grid": [1, 1, 1], "arguments": [*pointers, *integers]}
    plan = {"buffers": [buffer] * 4, "kernels": [kernel], "steps": [launch], "outputs": [{**view, "buffer": 3}]}
    return {"variant": "original", "plan": plan, "storages": {}}
