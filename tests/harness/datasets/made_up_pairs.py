"""Rows in KernelBook's form, made up here: a PyTorch module, and a Triton program as Inductor would write one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

PYTHON = '''import torch
import torch.nn as nn


class ShiftedGate(nn.Module):
    """A gate beside ShiftedGate's shift."""

    def __init__(self, width, offset=1.0):
        super(ShiftedGate, self).__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.offset = offset

    def forward(self, x):
        return torch.sigmoid(x) * self.weight + self.offset


def get_inputs():
    return [torch.rand([4, 8])]


def get_init_inputs():
    return [[], {"width": 8, "offset": 2.0}]
'''

TRITON = """import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.select_algorithm import extern_kernels

assert_size_stride = torch._C._dynamo.guards.assert_size_stride
empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda


@triton.jit
def triton_poi_fused_add_mul_sigmoid_0(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x = tl.load(in_ptr0 + xindex, xmask)
    gate = tl.load(in_ptr1 + xindex % 8, xmask)
    tl.store(out_ptr0 + xindex, tl.sigmoid(x) * gate + 2.0, xmask)


def call(args):
    primals_1, primals_2 = args
    args.clear()
    assert_size_stride(primals_1, (8,), (1,))
    assert_size_stride(primals_2, (4, 8), (8, 1))
    buf0 = empty_strided_cuda((4, 8), (8, 1), torch.float32)
    triton_poi_fused_add_mul_sigmoid_0[(1,)](primals_2, primals_1, buf0, 32, XBLOCK=32)
    return buf0, primals_2


class ShiftedGateNew(nn.Module):
    def __init__(self, width, offset=1.0):
        super(ShiftedGateNew, self).__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, input_0):
        return call([self.weight, input_0])[0]
"""


def make_row(**changes: Any) -> dict[str, Any]:
    """A sound row, with these columns changed."""
    row = {"entry_point": "ShiftedGate", "python_code": PYTHON, "triton_code": TRITON, "repo_name": "none"}
    return {**row, **changes}


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    """A Parquet file of rows."""
    pl.DataFrame(rows, strict=False).write_parquet(path)
    return path
