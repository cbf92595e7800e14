"""Answers that a candidate writes in the place of the recorder's: none of them is more than a plan to be judged."""

from __future__ import annotations

import hashlib
import json

from attrs import evolve
from tritonrl.core.candidate import Variant
from tritonrl.core.outcome import Outcome
from tritonrl.core.plan import Argument, ArgumentKind, Buffer, BufferKind, Kernel, Launch, LaunchPlan, View
from tritonrl.core.run import RunRequest
from tritonrl.core.serialisation import to_plain
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.stages.plan_validation import validate_plan

from ...conftest import SharedSandboxes
from .conftest import IDENTITY, SMALL_LIMITS, only, request


def test_answers_on_every_descriptor_are_no_result(sandboxes: SharedSandboxes) -> None:
    """A plausible answer written to all that /proc/self/fd lists is not believed, and exit status 0 proves nothing."""
    source = (
        "import os\nfrom tritonrl.harness.sandbox import wire\n"
        "frame = wire.encode({'recordings': [], 'seconds': 0.0}, [])\n"
        "for name in os.listdir('/proc/self/fd'):\n    try: os.write(int(name), frame)\n    except OSError: pass\n"
        "os._exit(0)"
    )
    plain = sandboxes.get(SMALL_LIMITS, without=["namespaces"])
    replies = [plain.record(text + IDENTITY, [request((4,))]) for text in (source, "import os; os._exit(0)")]
    outcomes = [reply.failure and reply.failure.outcome for reply in replies]
    assert outcomes == [Outcome.BROKEN_PROTOCOL, Outcome.CRASHED]


FORGED = """
import json, os, sys
from tritonrl.harness.sandbox import wire
frame = sys._getframe()
while "order" not in frame.f_locals:
    frame = frame.f_back
token, descriptor = bytes.fromhex(frame.f_locals["order"]["token"]), frame.f_locals["answer"]
recording = {"profile": "small", "dtype": "float32", "plan": json.loads(PLAN), "failure": None}
os.write(descriptor, token + wire.encode({"recordings": [recording], "num_compiled": 0, "seconds": 0.0}, []))
os._exit(0)
"""


def _forge(kernel: Kernel) -> tuple[LaunchPlan, str]:
    view = View(buffer=0, offset=0, shape=(4,), stride=(1,), dtype="float32")
    views = (("x_ptr", view), ("y_ptr", evolve(view, buffer=1)))
    arguments = tuple(Argument(name=name, kind=ArgumentKind.VIEW, view=view) for name, view in views)
    plan = LaunchPlan(
        buffers=tuple(
            Buffer(kind=kind, name=name, dtype="float32", num_elements=4)
            for kind, name in ((BufferKind.INPUT, "0"), (BufferKind.TEMPORARY, ""))
        ),
        kernels=(kernel,),
        steps=(Launch(kernel=0, grid=(1, 1, 1), arguments=arguments),),
        outputs=(evolve(view, buffer=1),),
    )
    return plan, f"PLAN = {json.dumps(to_plain(plan))!r}\n" + FORGED


def test_forged_answer_with_the_stolen_token_is_only_a_plan(sandbox: Sandbox) -> None:
    """A candidate that takes the token from the recorder's frame gets its own plan across, and it computes nothing.

    Validation sees what a plan lacks; a kernel that the source does not have, or that is host code, does not run.
    """
    invented = Kernel(qualname="k", source_sha256="0" * 64, reads=("x_ptr",), writes=("y_ptr",))
    plan, source = _forge(invented)
    recorded = only(sandbox.record(source + IDENTITY, [request((4,))])).plan
    assert recorded == plan
    assert validate_plan(evolve(plan, steps=()), None, (0,)) is not None
    assert validate_plan(plan, None, (0,)) is None
    text = "def helper(x_ptr, y_ptr):\n    import torch\n    return torch.softmax(x_ptr, 0)\n"
    host = evolve(invented, qualname="helper", source_sha256=hashlib.sha256(text.encode()).hexdigest())
    messages = []
    for kernel in (invented, host):
        forged = evolve(plan, kernels=(kernel,))
        reply = sandbox.run(text, [RunRequest(variant=Variant.ORIGINAL, plan=forged, storages={0: bytes(16)})])
        failure = reply.results[0].failure
        assert failure is not None
        assert failure.outcome is Outcome.UNSUPPORTED
        messages.append(failure.message)
    assert messages == [
        "kernel k is not found again in the source",
        "line 2: import is not part of the kernel language",
    ]
