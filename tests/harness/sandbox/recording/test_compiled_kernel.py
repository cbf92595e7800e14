"""Reads and writes of a kernel, found in the Triton IR of kernels compiled here.

What compiled code does with loads and stores, found in the Triton GPU IR of kernels compiled here.
"""

from __future__ import annotations

import pytest
from tritonrl.core.plan import Kernel
from tritonrl.core.task import Profile
from tritonrl.harness.sandbox.recording.compiled_kernel import differ, run_ahead
from tritonrl.harness.sandbox.sandbox import Sandbox

from ..conftest import only, request
from ..kernels import HEADER

KERNELS = {
    "gather": (
        "index = tl.load(i_ptr + at, mask=at < n, other=0).to(tl.int32)\ntl.store(y_ptr + at, tl.load(x_ptr + index))",
        {"i_ptr", "x_ptr"},
        {"y_ptr"},
    ),
    "two loops that reuse a name": (
        "p = x_ptr + at\ntotal = tl.zeros((64,), tl.float32)\nfor k in range(0, n, 64):\n"
        "    total += tl.load(p)\n    p += 64\n"
        "p = y_ptr + at\nfor k in range(0, n, 64):\n    tl.store(p, total)\n    p += 64",
        {"x_ptr"},
        {"y_ptr"},
    ),
    "while loop with pointers": (
        "p = x_ptr + at\nq = y_ptr + at\nk = 0\nwhile k < n:\n"
        "    tl.store(q, tl.load(p))\n    p += 64\n    q += 64\n    k += 64",
        {"x_ptr"},
        {"y_ptr"},
    ),
    "pointer chosen by a branch": (
        "if n > 7:\n    p = x_ptr\nelse:\n    p = i_ptr\ntl.store(y_ptr + at, tl.load(p + at))",
        {"x_ptr", "i_ptr"},
        {"y_ptr"},
    ),
    "atomic": ("tl.atomic_max(y_ptr + at, tl.load(x_ptr + at))", {"x_ptr", "y_ptr"}, {"y_ptr"}),
    "in place": ("tl.store(y_ptr + at, tl.load(y_ptr + at) + 1.0)", {"y_ptr"}, {"y_ptr"}),
    "load whose value is unused": ("tl.load(x_ptr + at)\ntl.store(y_ptr + at, 1.0)", set(), {"y_ptr"}),
    "swapped in a loop": (
        "p = x_ptr + at\nq = i_ptr + at\nfor k in range(0, n):\n    tl.store(y_ptr + at, tl.load(p))\n"
        "    t = p\n    p = q\n    q = t",
        {"x_ptr", "i_ptr"},
        {"y_ptr"},
    ),
    "reduction and nested loops": (
        "for i in range(0, n):\n    total = 0.0\n    for j in range(0, n):\n"
        "        total += tl.sum(tl.load(x_ptr + i * n + j * 64 + at))\n    tl.store(y_ptr + i, total)",
        {"x_ptr"},
        {"y_ptr"},
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_effects_of_compiled_kernel(sandbox: Sandbox, name: str) -> None:
    """The pointers that a kernel loads from and stores to are exactly those that its plan names."""
    body, reads, writes = KERNELS[name]
    source = (
        HEADER
        + "@triton.jit\ndef kernel(x_ptr, i_ptr, y_ptr, n, BLOCK: tl.constexpr):\n"
        + "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
        + "class ModelNew(nn.Module):\n    def forward(self, x, i):\n        y = torch.empty_like(x)\n"
        + "        kernel[(1,)](x, i, y, x.numel(), BLOCK=64)\n        return y\n"
    )
    recording = only(sandbox.record(source, [request((128,), (128,), profile=Profile.DECLARED, compile=True)]))
    assert recording.plan is not None, recording.failure
    (kernel,) = recording.plan.kernels
    assert set(kernel.reads) == reads
    assert set(kernel.writes) == writes
    assert not kernel.has_dot


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
    ("body", "goes_by_floats"),
    [
        ("tl.store(y_ptr + (at * 0.5).to(tl.int32), 1.0)", True),
        ("tl.store(y_ptr + at, 1.0, mask=at.to(tl.float32) < n)", True),
        ("p = 0.0\nfor i in range(0, n):\n    tl.store(y_ptr + p.to(tl.int32), 1.0)\n    p += k", True),
        ("for i in range(0, (n * 0.5).to(tl.int32)):\n    tl.store(y_ptr + i, 1.0)", True),
        ("tl.store(y_ptr + at, at.to(tl.float32) * 0.5)", False),
        ("tl.store(y_ptr + at, tl.sum(tl.load(x_ptr + at)) / n)", False),
        ("tl.store(y_ptr + tl.load(x_ptr + at).to(tl.int32), 1.0)", False),
    ],
)
def test_positions_that_go_by_floats_are_known(sandbox: Sandbox, body: str, goes_by_floats: bool) -> None:
    """Addresses and masks that are made of floats, but for floats that are loaded; not what is stored."""
    assert compile_kernel(sandbox, body).places_by_floats is goes_by_floats


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
