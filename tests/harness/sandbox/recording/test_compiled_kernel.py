"""Reads and writes of a kernel, found in the Triton IR of kernels compiled here."""

from __future__ import annotations

import pytest
from tritonrl.core.task import Profile
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
