"""Runs that may take longer than the limits say."""

from __future__ import annotations

from attrs import evolve
from tritonrl.core.candidate import Variant
from tritonrl.core.outcome import Outcome
from tritonrl.core.run import RunRequest
from tritonrl.harness.sandbox.sandbox import Sandbox

from ....conftest import SharedSandboxes
from ..conftest import SMALL_LIMITS, only, request
from ..kernels import HEADER

LONG = (
    HEADER
    + "@triton.jit\ndef kernel(x_ptr, y_ptr, n):\n"
    + "    total = tl.load(x_ptr)\n    for i in range(n):\n        total += i\n    tl.store(y_ptr, total)\n\n\n"
    + "class ModelNew(nn.Module):\n    def forward(self, x):\n"
    + "        y = torch.empty_like(x)\n        kernel[(1,)](x, y, 100000)\n        return y\n"
)


def test_a_run_that_may_take_long_comes_to_its_end(sandboxes: SharedSandboxes) -> None:
    """Out of time by the limits, it is whole with as many times their seconds as it needs."""
    sandbox: Sandbox = sandboxes.get(evolve(SMALL_LIMITS, cpu_s=1))
    plan = only(sandbox.record(LONG, [request((1,))])).plan
    assert plan is not None
    asked = [RunRequest(variant=Variant.ORIGINAL, plan=plan, storages={0: bytes(4)})]
    late = sandbox.run(LONG, asked)
    assert late.failure is not None
    assert late.failure.outcome is Outcome.TIMEOUT
    whole = sandbox.run(LONG, asked, patience=30)
    assert whole.failure is None
    assert whole.results[0].failure is None
