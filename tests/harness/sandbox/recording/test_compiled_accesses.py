"""What compiled code does with loads and stores, found in the Triton GPU IR of kernels compiled here."""

from __future__ import annotations

import pytest
from tritonrl.core.plan import Kernel
from tritonrl.core.task import Profile
from tritonrl.harness.sandbox.recording.compiled_kernel import differ, run_ahead
from tritonrl.harness.sandbox.sandbox import Sandbox

from ..conftest import only, request
from ..kernels import HEADER

LOOP = (
    "for i in {range}:\n    x = tl.load(y_ptr + i * BLOCK + at)\n{barrier}"
    "    tl.store(y_ptr + (i + 1) * BLOCK + at, x + 1.0)"
)
AHEAD = LOOP.format(range="tl.range(0, n, num_stages=4)", barrier="")


def compile_kernel(sandbox: Sandbox, body: str, dtype: str = "float32") -> Kernel:
    """The kernel with this body, as the plan has it."""
    source = (
        HEADER
        + "@triton.jit\ndef kernel(x_ptr, y_ptr, n, k, BLOCK: tl.constexpr):\n    at = tl.arange(0, BLOCK)\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
        + "class ModelNew(nn.Module):\n    def forward(self, x):\n        y = torch.zeros_like(x)\n"
        + "        kernel[(1,)](x, y, 3, 7, BLOCK=256)\n        return y\n"
    )
    asked = request((4096,), profile=Profile.DECLARED, compile=True, dtype=dtype)
    recording = only(sandbox.record(source, [asked]))
    assert recording.plan is not None, recording.failure
    return recording.plan.kernels[0]


@pytest.mark.parametrize(
    ("body", "dtype", "is_ahead"),
    [
        (AHEAD, "float32", True),
        (AHEAD, "float16", True),
        (AHEAD.replace(" + at", " + at * k"), "float16", False),
        (LOOP.format(range="range(0, n)", barrier=""), "float32", False),
        (LOOP.format(range="tl.range(0, n, num_stages=1)", barrier=""), "float32", False),
        (LOOP.format(range="tl.range(0, n, num_stages=4)", barrier="    tl.debug_barrier()\n"), "float32", False),
        (AHEAD.replace("tl.load(y_ptr", "tl.load(x_ptr"), "float32", False),
        (
            "for i in tl.range(0, n, num_stages=4):\n    x = tl.load(y_ptr + i * BLOCK + at)\n"
            "    tl.store(x_ptr + i * BLOCK + at, x)\n"
            "tl.store(y_ptr + at, 1.0)",
            "float32",
            False,
        ),
    ],
    ids=["staged", "narrow", "narrow and apart", "plain", "one stage", "barrier", "other buffer", "stored later"],
)
def test_which_loops_load_ahead_of_their_stores(sandbox: Sandbox, body: str, dtype: str, is_ahead: bool) -> None:
    """Those with stages and loads of four bytes and more, unless a barrier is in the loop."""
    accesses = compile_kernel(sandbox, body, dtype).accesses
    assert run_ahead(access for access in accesses if access.parameter == "y_ptr") is is_ahead


@pytest.mark.parametrize(
    ("body", "is_spread"),
    [
        ("tl.store(y_ptr + at * k, tl.load(x_ptr + at))\ntl.store(x_ptr + at, tl.load(y_ptr + at))", True),
        ("tl.store(y_ptr + at, tl.load(x_ptr + at))\ntl.store(y_ptr + at, tl.load(y_ptr + at) + 1.0)", False),
        ("tl.store(y_ptr + at, tl.load(x_ptr + at))\ntl.store(y_ptr, tl.load(y_ptr + 1))", False),
    ],
    ids=["strides", "in place", "scalar"],
)
def test_which_buffers_have_several_layouts(sandbox: Sandbox, body: str, is_spread: bool) -> None:
    """Those that are stored with a stride and loaded without."""
    accesses = compile_kernel(sandbox, body).accesses
    assert differ(access for access in accesses if access.parameter == "y_ptr") is is_spread
