"""Conversions to eight bits and towards zero, and device functions at the edges of what they are defined for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ...kernels import HEADER

_RUN = """
import json, sys, warnings
import numpy, torch, triton
from tritonrl.harness.sandbox.interpreter.kernel_module import KernelModule
from tritonrl.harness.sandbox.interpreter.interpreter import SEMANTICS, install
from tritonrl.harness.sandbox.interpreter.semantics.run_state import Layout, begin_run
warnings.simplefilter("ignore")
install(SEMANTICS)
results = []
for source, values, layout, seed in json.load(sys.stdin):
    begin_run(0, layout=Layout(*layout), error_seed=seed)
    x = torch.tensor([float(value) for value in values], dtype=torch.float32)
    out = torch.zeros(len(values), dtype=torch.float32)
    try:
        KernelModule(source).function("kernel").run(
            grid=(1,), warmup=False, x_ptr=x, out_ptr=out, BLOCK=len(values)
        )
        results.append([repr(value) for value in out.tolist()])
    except Exception as error:
        while error.__cause__:
            error = error.__cause__
        results.append([repr(error)])
print(json.dumps(results))
"""
_KERNEL = (
    "from triton.language.extra import libdevice\n{helpers}"
    "@triton.jit\ndef kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):\n    at = tl.arange(0, BLOCK)\n"
    "    x = tl.load(x_ptr + at)\n    out = {body}\n    tl.store(out_ptr + at, out.to(tl.float32))\n"
)


def interpret(
    asked: list[tuple[str, str, tuple[Any, ...], tuple[int, int]]], seed: int | None = None
) -> list[list[str]]:
    """What expressions, with their helpers, make of float32 values in this project's interpreter."""
    requests = [
        (HEADER + _KERNEL.format(helpers=helpers, body=body), [str(value) for value in values], layout, seed)
        for helpers, body, values, layout in asked
    ]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _RUN],
        input=json.dumps(requests),
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
    found: list[list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


RTZ = 'fp_downcast_rounding="rtz"'
INF = float("inf")
NAN = float("nan")
CASES: dict[str, tuple[str, tuple[float, ...], tuple[float, ...]]] = {
    "float16 towards zero": (f"x.to(tl.float16, {RTZ})", (1e6, -65520.0, INF, 1.0009), (65504.0, -65504.0, INF, 1.0)),
    "bfloat16 towards zero": (f"x.to(tl.bfloat16, {RTZ})", (1.0059, -1.0059, INF, NAN), (1.0, -1.0, INF, NAN)),
    "e5m2 towards zero": (f"x.to(tl.float8e5, {RTZ})", (1.9, -1.9, 1e9, INF), (1.75, -1.75, 57344.0, INF)),
    "e5m2": ("x.to(tl.float8e5)", (1.96, 1.125, 1e9, -INF), (2.0, 1.0, 57344.0, -57344.0)),
    "e5m2 of small numbers": ("x.to(tl.float8e5)", (2**-16, 2**-18, 3 * 2**-18, 0.0), (2**-16, 0.0, 2**-16, 0.0)),
    "e4m3": ("x.to(tl.float8e4nv)", (1000.0, -1000.0, NAN, 1.0625), (448.0, -448.0, NAN, 1.0)),
    "e4m3 of halves": ("x.to(tl.float16).to(tl.float8e4nv)", (470.0, 17.0, 19.0, 0.0), (448.0, 16.0, 20.0, 0.0)),
    "e4m3 and back by bfloat16": (
        "x.to(tl.bfloat16).to(tl.float8e4nv).to(tl.bfloat16)", (3.0, 240.0, -0.5, 0.0), (3.0, 240.0, -0.5, 0.0),
    ),
    "a double to bfloat16": (
        "(x.to(tl.float64) + 1e-12).to(tl.bfloat16)", (1.00390625, 1.0, 2.0, 3.0), (1.0078125, 1.0, 2.0, 3.0),
    ),
    "round": ("libdevice.round(x)", (0.49999997, -0.5, 2.5, 8388609.0), (0.0, -1.0, 3.0, 8388609.0)),
    "logb": ("libdevice.logb(x)", (0.0, INF, 8.0, 0.75), (-INF, INF, 3.0, -1.0)),
    "ilogb": ("libdevice.ilogb(x)", (0.0, INF, 8.0, NAN), (-(2.0**31), 2.0**31, 3.0, -(2.0**31))),
    "fast power": ("libdevice.fast_powf(x, 2.0 + x * 0)", (-2.0, 2.0, 0.0, 3.0), (NAN, 4.0, 0.0, 9.0)),
    "fast quotient": ("libdevice.fast_dividef(x, x)", (1e38, 4.0, 0.5, 1e-40), (0.0, 1.0, 1.0, NAN)),
    "float2int": ("libdevice.float2int_rz(x)", (1e12, -1e12, NAN, -1.9), (2.0**31, -(2.0**31), 0.0, -1.0)),
    "sinpi": ("libdevice.sinpi(x)", (1.0, 0.5, -0.5, 2.0), (0.0, 1.0, -1.0, 0.0)),
    "cospi": ("libdevice.cospi(x)", (1.0, 0.5, 1.5, 2.0), (-1.0, 0.0, 0.0, 1.0)),
    "remainder": ("libdevice.remainder(x, 3.0 + x * 0)", (1e10, 5.0, -5.0, 0.5), (1.0, -1.0, 1.0, 0.5)),
    "fdim": ("libdevice.fdim(x, 1.0 + x * 0)", (3.0, -3.0, NAN, 1.0), (2.0, 0.0, NAN, 0.0)),
    "tgamma": ("libdevice.tgamma(x)", (0.0, 200.0, -1.0, 5.0), (INF, INF, NAN, 24.0)),
    "lgamma": ("libdevice.lgamma(x)", (0.0, -1.0, 1.0, INF), (INF, INF, 0.0, INF)),
    "erfcx": ("libdevice.erfcx(x)", (0.0, 1e30, INF, NAN), (1.0, 5.641896e-31, 0.0, NAN)),
    "a gather within its block": ("tl.gather(x, 3 - at, 0)", (1.0, 2.0, 3.0, 4.0), (4.0, 3.0, 2.0, 1.0)),
    "a gather whose outside is left out": (
        "tl.where(at == 0, 9.0, tl.gather(x, at - 1, 0))", (1.0, 2.0, 3.0, 4.0), (9.0, 1.0, 2.0, 3.0),
    ),
    "a histogram": ("tl.histogram(x.to(tl.int32), 4)", (0.0, 3.0, 3.0, 1.0), (1.0, 1.0, 0.0, 2.0)),
    "a histogram with a mask": (
        "tl.histogram(x.to(tl.int32), 4, mask=x < 4)", (0.0, 7.0, 3.0, 1.0), (1.0, 1.0, 0.0, 1.0),
    ),
    "the position of a maximum": ("tl.argmax(x, 0) + x * 0", (1.0, 4.0, 4.0, 3.0), (1.0, 1.0, 1.0, 1.0)),
    "the position of a maximum before NaN": ("at * 0 + tl.argmax(x, 0)", (1.0, 4.0, 2.0, NAN), (3.0, 3.0, 3.0, 3.0)),
    "the position of a maximum after NaN": ("at * 0 + tl.argmax(x, 0)", (NAN, 4.0, 2.0, 1.0), (1.0, 1.0, 1.0, 1.0)),
    "a maximum beside NaN": ("at * 0 + tl.max(x, 0)", (1.0, 4.0, NAN, 3.0), (4.0, 4.0, 4.0, 4.0)),
}  # fmt: skip
REFUSED = {
    "a histogram beyond its bins": "tl.histogram(x.to(tl.int32), 4)",
    "e4m3 towards zero": f"x.to(tl.float8e4nv, {RTZ})",
    "a double to eight bits": "x.to(tl.float64).to(tl.float8e5)",
}


@cache
def _results() -> dict[str, list[str]]:
    asked = [("", body, values, (1, 4)) for body, values, _ in CASES.values()]
    asked += [("", body, (0.0, 4.0, 1.0, 2.0), (1, 4)) for body in REFUSED.values()]
    return dict(zip([*CASES, *REFUSED], interpret(asked), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_edges_are_those_of_the_instructions(name: str) -> None:
    """Saturation, rounding and NaN by the PTX that the compiler makes."""
    found = [float(value) for value in _results()[name]]
    assert found == pytest.approx(CASES[name][2], rel=1e-6, abs=0, nan_ok=True)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_had_is_refused(name: str) -> None:
    """With a message that says what."""
    assert "NotKernelLanguage" in _results()[name][0]
