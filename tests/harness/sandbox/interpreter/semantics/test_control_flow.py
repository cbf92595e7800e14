"""The interpreter computes what a GPU computes; the GPU's results are on record."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import triton.language as tl
from triton.runtime import interpreter
from tritonrl.harness.sandbox.interpreter.semantics.patches import remember_types

from .semantics import CASES, FLOATS

NUMBERS = [
    one
    for one in vars(tl).values()
    if isinstance(one, tl.dtype) and not isinstance(one, tl.pointer_type) and one is not tl.void
]
RECORDED: dict[str, list[str]] = json.loads(Path(__file__).with_name("semantics_h200.json").read_text(encoding="utf-8"))
_RUN = """
import json, warnings
import numpy, torch, triton
from tests.harness.sandbox.interpreter.semantics.semantics import CASES, SIZE, SOURCE, inputs
from tritonrl.harness.sandbox.interpreter.kernel_module import KernelModule
from tritonrl.harness.sandbox.interpreter.interpreter import SEMANTICS, install
warnings.simplefilter("ignore")
install(SEMANTICS)
kernels, results = KernelModule(SOURCE), {}
for name, (given, returned, _) in CASES.items():
    x, y = (torch.tensor(values, dtype=getattr(torch, given)) for values in inputs(given))
    out = torch.zeros(SIZE, dtype=getattr(torch, returned))
    try:
        kernels.function(name).run(grid=(1,), warmup=False, x_ptr=x, y_ptr=y, out_ptr=out, n=SIZE, BLOCK=SIZE)
        results[name] = [repr(value) for value in out.tolist()]
    except Exception as error:
        results[name] = [repr(error)]
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def interpreted() -> dict[str, list[str]]:
    """What this project's interpreter makes of the cases, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _RUN],
        env={
            "TRITON_INTERPRET": "1",
            "PATH": "",
            "HOME": "/nonexistent",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        },
        cwd=Path(__file__).parents[5],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", sorted(CASES))
def test_interpreter_agrees_with_the_gpu(name: str, interpreted: dict[str, list[str]]) -> None:
    """Integers are equal; floating-point numbers differ by rounding at the most."""
    assert len(interpreted[name]) == len(RECORDED[name]) == 64, interpreted[name][0]
    for found, wanted in zip(interpreted[name], RECORDED[name], strict=True):
        if CASES[name][1] != FLOATS:
            assert found == wanted
        else:
            left, right = float(found), float(wanted)
            both_nan = math.isnan(left) and math.isnan(right)
            # a GPU rounds a * b + c once, in the narrow type
            limit = {"half": 2e-3, "bfloat16": 1e-2}.get(name.split("_")[0], 2e-5)
            assert both_nan or left == right or math.isclose(left, right, rel_tol=limit, abs_tol=limit)


def test_a_type_has_the_same_kind_of_number() -> None:
    """Alone, in a block, and where it is pointed to; the table is asked once for each."""
    asked: list[str] = []

    def ask(kind: Any) -> Any:
        asked.append(str(kind))
        return interpreter._get_np_dtype(kind)

    remembered = remember_types(ask)
    assert len(NUMBERS) > 15
    for number in NUMBERS:
        kinds = [number, tl.block_type(number, [4]), tl.block_type(number, [2, 8])]
        for _ in range(2):
            assert [remembered(kind) for kind in kinds] == [interpreter._get_np_dtype(kind) for kind in kinds]
    assert len(asked) == len({number.name for number in NUMBERS})
    pointer = tl.pointer_type(tl.float16)
    for kind in (pointer, tl.block_type(pointer, [4])):
        assert remembered(kind) == interpreter._get_np_dtype(kind)
