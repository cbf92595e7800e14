"""Code that a child without host code has made is not made again where another source comes to the same GPU IR."""

from __future__ import annotations

import re

from attrs import evolve
from tritonrl.core.plan import LaunchPlan
from tritonrl.core.task import Profile
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.sandbox.wire import decode, encode

from ..conftest import only, recompile, request
from ..kernels import POINTWISE

OTHER_WORDS = "# in other words\n" + re.sub(r"\bat\b", "place", POINTWISE.replace("BLOCK", "TILE"))
ANOTHER = POINTWISE.replace("* factor", "+ factor")


def plan_of(sandbox: Sandbox, source: str) -> LaunchPlan:
    """The plan of a source that compiles."""
    recording = only(sandbox.record(source, [request((3, 4), profile=Profile.DECLARED, compile=True)]))
    assert recording.plan is not None, recording.failure
    return recording.plan


def test_other_words_come_to_known_code(sandbox: Sandbox) -> None:
    """The kernels are told as they are where everything is made, and nothing new is."""
    _, first = recompile(sandbox, POINTWISE, plan_of(sandbox, POINTWISE))
    assert len(first.compiled) == 1
    plan = plan_of(sandbox, OTHER_WORDS)
    again, reply = recompile(sandbox, OTHER_WORDS, plan, compiled=first.compiled)
    afresh, _ = recompile(sandbox, OTHER_WORDS, plan)
    assert again == afresh
    assert again.kernels == plan.kernels
    assert reply.compiled == ()
    assert reply.blobs == first.blobs


def test_what_is_known_is_taken_by_the_ir_alone(sandbox: Sandbox) -> None:
    """Another kernel, or the same with other options, is made; code of the same IR is taken, whatever it is."""
    plan = plan_of(sandbox, POINTWISE)
    (frame,) = recompile(sandbox, POINTWISE, plan)[1].compiled
    known = [encode(decode(frame)[0], [b"no code"])]
    (taken,) = recompile(sandbox, POINTWISE, plan, compiled=known)[0].kernels
    (recorded,) = plan.kernels
    assert taken.binary != recorded.binary
    assert evolve(taken, binary=recorded.binary) == recorded
    for source in (ANOTHER, POINTWISE.replace("2.0, BLOCK", "2.0, enable_fp_fusion=False, BLOCK")):
        assert source != POINTWISE
        other = plan_of(sandbox, source)
        made, reply = recompile(sandbox, source, other, compiled=known)
        assert made.kernels == other.kernels
        assert len(reply.compiled) == 1


def test_code_with_places_in_the_source_is_not_known(sandbox: Sandbox) -> None:
    """An assertion tells its file and line, which are no part of the IR that is compared."""
    asserting = POINTWISE.replace("    tl.store(", '    tl.device_assert(n > 0, "none")\n    tl.store(', 1)
    checked = asserting.replace("@triton.jit", "@triton.jit(debug=True)")
    assert checked != POINTWISE
    assert recompile(sandbox, checked, plan_of(sandbox, checked))[1].compiled == ()
