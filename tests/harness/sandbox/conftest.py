"""The sandbox of the tests of this folder, and functions that write requests."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tritonrl.core.candidate import Recording
from tritonrl.core.config import LimitsConfig
from tritonrl.core.plan import LaunchPlan
from tritonrl.core.run import TensorSpec
from tritonrl.core.serialisation import write_arguments
from tritonrl.core.task import Profile
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.sandbox.wire import (
    Depth,
    Recompiled,
    RecompileReply,
    RecompileRequest,
    RecordReply,
    RecordRequest,
)
from tritonrl.harness.sandbox.zygote_process import ZygoteProcess

from ...conftest import SharedSandboxes

SMALL_LIMITS = LimitsConfig(cpu_s=4, wall_s=8, memory_mb=1024, file_mb=16, processes=32, output_mb=4)
IDENTITY = "\nimport torch.nn as nn\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return x\n"
"""The end of a source whose beginning is what a test is about."""


@pytest.fixture(scope="session")
def sandbox(sandboxes: SharedSandboxes) -> Sandbox:
    """A sandbox with limits small enough to run into."""
    return sandboxes.get(SMALL_LIMITS)


def find_zygote(box: Sandbox) -> ZygoteProcess:
    """The one that compiles."""
    found = box._zygote("compile")
    assert isinstance(found, ZygoteProcess)
    return found


def request(
    *shapes: tuple[int, ...],
    init: tuple[object, ...] = (),
    profile: Profile = Profile.SMALL,
    compile: bool = False,
    dtype: str = "float32",
) -> RecordRequest:
    """A recording request with inputs of these shapes."""
    return RecordRequest(
        profile=profile,
        dtype=dtype,
        init_json=write_arguments(init, {}),
        seed=0,
        inputs=tuple(TensorSpec(shape=shape, dtype=dtype) for shape in shapes),
        compile=compile,
    )


def only(reply: RecordReply) -> Recording:
    """The one recording of a reply that did not fail as a whole."""
    assert reply.failure is None, reply.failure
    (recording,) = reply.recordings
    return recording


def recompile(
    box: Sandbox, source: str, plan: LaunchPlan, depth: Depth = Depth.CODE, compiled: Sequence[bytes] = ()
) -> tuple[Recompiled, RecompileReply]:
    """What a clean child made of one plan, and all that it answered."""
    reply = box.recompile(source, [RecompileRequest(plan=plan)], depth, compiled)
    assert reply.failure is None, reply.failure
    (made,) = reply.made
    assert made.failure is None, made.failure
    return made, reply
