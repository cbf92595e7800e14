"""Numbers in kernels are exact where the compiler computes with them, and tensors where it makes tensors of them.

What is expected is what Triton's compiler says: the constants and types of the Triton IR that it makes of each body.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tritonrl.harness.sandbox.interpreter.semantics.scalars import RETURNS_CONSTANTS

MANY, BOTH, WRAPPED = 2000000000, 4000000000, 4000000000 - 2**32
HELPERS = """
THREE = tl.constexpr(3)


@triton.jit
def pair():
    return 2000000000, 2000000000


@triton.jit
def number():
    return 2000000000


@triton.jit
def by_tensor(n):
    if n > 0:
        return 2000000000
    else:
        return 5


@triton.jit
def by_constant(n: tl.constexpr):
    if n > 0:
        return 2000000000
    else:
        return 5


@triton.jit
def holding_gpu_lock(n: tl.constexpr):
    if n > 0:
        return 2000000000
    return 5


@triton.jit
def alike(n):
    if n > 0:
        return 2000000000
    return 2000000000


@triton.jit
def alike_in_other_words(n, m: tl.constexpr):
    if n > 0:
        return 2000000000
    return m * 31250000


@triton.jit
def pairs_of_one_first(n):
    if n > 0:
        return 2000000000, n
    rest = n + 1
    return 2000000000, rest


@triton.jit
def wrapped_sum(a, b):
    many = 2000000000
    return a + b + (many + many) * 0 + tl.where(many + many > 0, 1, 0)


@triton.constexpr_function
def power(n):
    result = 1
    for _ in range(max(n, 0)):
        result *= 10
    return result


"""
BODIES: dict[str, tuple[str, int]] = {
    "tuple": ("p, q = 2000000000, 2000000000\nout = p + q", WRAPPED),
    "assigned tuple": ("w = (2000000000, 2000000000)\nout = w[0] + w[1]", WRAPPED),
    "tuple that is not assigned": ("out = (2000000000, 1)[0] + 2000000000", BOTH),
    "list": ("w = [2000000000, 2000000000]\nout = w[0] + w[1]", WRAPPED),
    "list of 64 bits": ("w = [i * 2000000000 for i in (2, 3)]\nout = w[0] + w[1]", 10000000000),
    "augmented constant": ("BLOCK += 2000000000\nout = BLOCK + 2000000000", WRAPPED + 64),
    "constant": ("c: tl.constexpr = 2000000000\nout = c + 2000000000", BOTH),
    "annotated": ("c: tl.int32 = 2000000000\nout = c + 2000000000", WRAPPED),
    "chosen by a tensor": ("out = (3 if n > 0 else 4) * 2000000000", 3 * MANY - 2**32),
    "chosen by a constant": ("out = (3 if BLOCK > 0 else 4) * 2000000000", 3 * MANY),
    "helper's pair": ("p, q = pair()\nout = p + q", WRAPPED),
    "element of a helper's pair": ("out = pair()[0] + 2000000000", BOTH if RETURNS_CONSTANTS else WRAPPED),
    "helper's number": ("out = number() + 2000000000", BOTH if RETURNS_CONSTANTS else WRAPPED),
    "returned by a tensor": ("out = by_tensor(n) + 2000000000", WRAPPED),
    "returned by a constant": ("out = by_constant(BLOCK) + 2000000000", BOTH if RETURNS_CONSTANTS else WRAPPED),
    "returned in turn": ("out = holding_gpu_lock(BLOCK) + 2000000000", WRAPPED),
    "returned alike": ("out = alike(n) + 2000000000", BOTH if RETURNS_CONSTANTS else WRAPPED),
    "returned in other words": (
        "out = alike_in_other_words(n, BLOCK) + 2000000000",
        BOTH if RETURNS_CONSTANTS else WRAPPED,
    ),
    "first of two pairs": ("out = pairs_of_one_first(n)[0] + 2000000000", BOTH if RETURNS_CONSTANTS else WRAPPED),
    "numbers of a reduction": ("out = tl.reduce(tl.full((4,), 1, tl.int32), 0, wrapped_sum)", 4),
    "constexpr function": ("out = power(12) + 1", 10**12 + 1),
    "loop's shift": ("out = 0\nfor i in range(1, 2):\n    out += i << 31", -(2**31)),
    "loop's shift back": ("out = 0\nfor i in range(1, 2):\n    out += (i << 31) >> 31", -1),
    "loop's quotient": ("out = 0\nfor i in range(-7, -6):\n    out += i // 2 * 10 + i % 2", -31),
    "loop's fraction": ("out = 0\nfor i in range(16777217, 16777218):\n    out += (i / 1).to(tl.int32)", 16777216),
    "loop's product": ("out = 0\nfor i in range(1, 2):\n    out += ((i * 1e-30) * 1e-30 * 1e38 > 0).to(tl.int32)", 0),
    "loop downwards": ("out = 0\nfor i in range(5, 0, -2):\n    out = out * 10 + i", 531),
    "loop of tl.range": ("out = 0\nfor i in tl.range(1, 6, step=2, num_stages=2):\n    out = out * 10 + i", 135),
    "loop of 64 bits": ("out = wide * 0\nfor i in range(wide, wide + 2):\n    out += i << 1", 2**34 + 2),
    "loop of unsigned bounds": ("out = 0\nfor i in range(2147483647, 2147483649):\n    out += 1", 0),
    "loop that is unrolled": ("out = wide * 0\nfor i in tl.static_range(1, 2):\n    out += i * 4000000000", BOTH),
    "maximum of tensors": ("out = max(n - n, 3) * 2000000000", 3 * MANY - 2**32),
    "maximum of three": ("out = max(n, 3, wide)", 2**32),
    "minimum of a block": ("out = tl.sum(min(tl.arange(0, 4), 1))", 3),
    "maximum of constants": ("out = max(3, 2) * 2000000000", 3 * MANY),
    "argument of 1": ("out = one * 2147483647 + one", 2**31),
    "argument of 64 bits": ("out = wide + wide", 2**33),
    "flag": ("out = (1 if flag else 2) + flag.to(tl.int32)", 2),
    "constant on the right": ("out = 7 % THREE + (1 << THREE) + (9 >> THREE) + (6 ^ THREE)", 15),
    "sum of truth values": ("m = n > 0\nout = (m + m).to(tl.int32) + 2 * (m + m + m).to(tl.int32)", 2),
    "difference of truth values": ("m = n > 0\nout = (m - m).to(tl.int32) + 2 * (m - (n < 0)).to(tl.int32)", 2),
    "negated truth value": ("m = n > 0\nout = (-m).to(tl.int32)", 1),
    "product of truth values": ("m = n > 0\nout = (m * m).to(tl.int32) + 2 * (1 - m)", 1),
    "high product": ("out = tl.umulhi(wide * 0 - 1, wide * 0 - 1)", -2),
}
PARAMETERS = "out_ptr, n, wide, one, flag, BLOCK: tl.constexpr"
SOURCE = (
    "import triton\nimport triton.language as tl\n"
    + HELPERS
    + "".join(
        f"@triton.jit\ndef k{number}({PARAMETERS}):\n"
        + "".join(f"    {line}\n" for line in f"{body}\ntl.store(out_ptr, out)".splitlines())
        + "\n\n"
        for number, (body, _) in enumerate(BODIES.values())
    )
)
_RUN = """
import json, warnings
import torch
from tests.harness.sandbox.interpreter.semantics.test_scalars import BODIES, SOURCE
from tritonrl.harness.sandbox.interpreter.kernel_module import KernelModule
from tritonrl.harness.sandbox.interpreter.interpreter import SEMANTICS, install
from tritonrl.harness.sandbox.kernel_source import KernelSource
from tritonrl.harness.sandbox.interpreter.semantics.scalars import argument
warnings.simplefilter("ignore")
install(SEMANTICS)
source, kernels, results = KernelSource(SOURCE), KernelModule(SOURCE), []
values = {"n": argument(64, "i32"), "wide": argument(2**32, "i64"), "flag": argument(True, "u1"), "one": 1, "BLOCK": 64}
for number in range(len(BODIES)):
    out = torch.zeros(1, dtype=torch.int64)
    kernel = kernels.kernel(f"k{number}", source._hash(source.last(f"k{number}")), ["one"])
    try:
        kernel.run(grid=(1,), warmup=False, out_ptr=out, **values)
        results.append(out.item())
    except Exception as error:
        results.append(repr(error))
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def interpreted() -> dict[str, int | str]:
    """What the interpreter makes of the bodies, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _RUN],
        env={"TRITON_INTERPRET": "1", "PATH": "", "HOME": "/nonexistent", "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=Path(__file__).parents[5],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(BODIES, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("name", BODIES)
def test_number_is_what_the_compiler_makes_of_it(name: str, interpreted: dict[str, int | str]) -> None:
    """Constants are exact; tensors have their bits."""
    assert interpreted[name] == BODIES[name][1]
