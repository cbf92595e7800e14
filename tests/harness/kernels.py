"""Tasks and candidates for the verifier's tests: right ones, wrong ones, and cheats."""

from __future__ import annotations

from tritonrl.core.task import Task

POINTWISE = Task(
    task_id="test-doubled-silu",
    level=1,
    family="unary",
    description="y = 2 * x * sigmoid(x)",
    source="""
import torch
import torch.nn as nn

ROWS = 1024
COLUMNS = 2048


class Model(nn.Module):
    def forward(self, x):
        return 2.0 * x * torch.sigmoid(x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
""",
    dtypes=("float32", "float16"),
    tiny=(("ROWS", 3), ("COLUMNS", 5)),
    small=(("ROWS", 9), ("COLUMNS", 33)),
    larger=(("ROWS", 19), ("COLUMNS", 70)),
)

LINEAR = Task(
    task_id="test-linear",
    level=2,
    family="linear",
    description="a linear layer",
    source="""
import torch
import torch.nn as nn

BATCH = 128
INPUTS = 512
OUTPUTS = 256


class Model(nn.Module):
    def __init__(self, num_inputs, num_outputs):
        super().__init__()
        self.linear = nn.Linear(num_inputs, num_outputs)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(BATCH, INPUTS)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
""",
    tiny=(("BATCH", 3), ("INPUTS", 5), ("OUTPUTS", 7)),
    small=(("BATCH", 17), ("INPUTS", 33), ("OUTPUTS", 20)),
    larger=(("BATCH", 35), ("INPUTS", 50), ("OUTPUTS", 37)),
)

NORM = Task(
    task_id="test-layer-norm",
    level=1,
    family="norm",
    description="layer normalisation",
    source="""
import torch
import torch.nn as nn

ROWS = 512
COLUMNS = 1024


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]
""",
    tiny=(("ROWS", 3), ("COLUMNS", 5)),
    small=(("ROWS", 5), ("COLUMNS", 33)),
    larger=(("ROWS", 9), ("COLUMNS", 70)),
)

ADD = Task(
    task_id="test-add",
    level=1,
    family="binary",
    description="a sum",
    source="""
import torch
import torch.nn as nn

SIZE = 65536


class Model(nn.Module):
    def forward(self, x, y):
        return x + y


def get_inputs():
    return [torch.randn(SIZE), torch.randn(SIZE)]


def get_init_inputs():
    return []
""",
    tiny=(("SIZE", 5),),
    small=(("SIZE", 300),),
    larger=(("SIZE", 700),),
)

_HEAD = "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n"


def pointwise(
    body: str = "2.0 * x * tl.sigmoid(x)", *, forward: str | None = None, load: str = ".to(tl.float32)"
) -> str:
    """A pointwise candidate with `body` as its formula, or with another `forward`."""
    forward = forward or (
        "out = torch.empty_like(x)\n"
        "        n = x.numel()\n"
        "        kernel[(triton.cdiv(n, 128),)](x, out, n, BLOCK=128)\n"
        "        return out"
    )
    return (
        _HEAD
        + f"""@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask){load}
    tl.store(out_ptr + offsets, {body}, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        {forward}
"""
    )


def linear(*, bias: str = "accumulator += tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[None, :]") -> str:
    """A tiled matrix product with bias and ReLU."""
    return (
        _HEAD
        + f"""@triton.jit
def kernel(x_ptr, w_ptr, bias_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    accumulator = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        inner = start + tl.arange(0, BK)
        a_mask = (rows[:, None] < M) & (inner[None, :] < K)
        a = tl.load(x_ptr + rows[:, None] * K + inner[None, :], mask=a_mask, other=0.0)
        b_mask = (columns[None, :] < N) & (inner[:, None] < K)
        b = tl.load(w_ptr + columns[None, :] * K + inner[:, None], mask=b_mask, other=0.0)
        accumulator += tl.dot(a, b)
    {bias}
    accumulator = tl.maximum(accumulator, 0.0)
    out_mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], accumulator, mask=out_mask)


class ModelNew(nn.Module):
    def __init__(self, num_inputs, num_outputs):
        super().__init__()
        self.linear = nn.Linear(num_inputs, num_outputs)

    def forward(self, x):
        M, K = x.shape
        N = self.linear.weight.shape[0]
        out = torch.empty((M, N), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
        kernel[grid](x, self.linear.weight, self.linear.bias, out, M, N, K, BM=32, BN=32, BK=32)
        return out
"""
    )


def norm(*, scale: str = " * tl.load(w_ptr + columns, mask=mask) + tl.load(b_ptr + columns, mask=mask)") -> str:
    """A layer norm, one program a row."""
    return (
        _HEAD
        + f"""@triton.jit
def kernel(x_ptr, w_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(x_ptr + row * n + columns, mask=mask, other=0.0)
    mean = tl.sum(x) / n
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred) / n
    y = centred / tl.sqrt(variance + 1e-5)
    tl.store(out_ptr + row * n + columns, y{scale}, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)

    def forward(self, x):
        out = torch.empty_like(x)
        n = x.shape[1]
        kernel[(x.shape[0],)](x, self.norm.weight, self.norm.bias, out, n, BLOCK=triton.next_power_of_2(n))
        return out
"""
    )


def add(expression: str = "x + y", *, forward: str = "") -> str:
    """A sum of two vectors, with `expression` stored."""
    return (
        _HEAD
        + f"""@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, {expression}, mask=mask)
    {forward}


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        n = x.numel()
        kernel[(triton.cdiv(n, 128),)](x, y, out, n, BLOCK=128)
        return out
"""
    )
