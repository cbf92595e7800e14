"""Code that nobody loads: what compiles is known without LLVM and `ptxas`, which still read what candidates write."""

from __future__ import annotations

import pytest
from attrs import evolve
from tritonrl.core.candidate import Failure
from tritonrl.core.outcome import Outcome
from tritonrl.core.plan import LaunchPlan
from tritonrl.core.task import Profile
from tritonrl.harness.sandbox.recording.target import find_registers
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.sandbox.wire import Depth, RecompileRequest, RecordRequest
from tritonrl.stages.checks.recompile import give_code

from ..conftest import only, recompile, request
from ..kernels import POINTWISE

DECLARED: list[RecordRequest] = [request((3, 4), profile=Profile.DECLARED, compile=True)]
LOADED = "tl.load(x_ptr + at, mask=at < n) * factor"


def plan_of(sandbox: Sandbox, source: str, depth: Depth) -> tuple[LaunchPlan, dict[str, bytes]]:
    """The plan of a source that compiles, and its blobs."""
    reply = sandbox.record(source, DECLARED, depth)
    plan = only(reply).plan
    assert plan is not None, only(reply).failure
    return plan, reply.blobs


def with_assembly(text: str) -> str:
    """The pointwise model, whose kernel goes through a line of assembly."""
    assert LOADED in POINTWISE
    call = f"tl.inline_asm_elementwise({text!r}, '=r,r', [{LOADED}], dtype=tl.float32, is_pure=True, pack=1)"
    return POINTWISE.replace(LOADED, call)


@pytest.mark.parametrize("depth", [Depth.LAYOUTS, Depth.PTX])
def test_only_the_code_itself_differs(sandbox: Sandbox, depth: Depth) -> None:
    """Effects, accesses, options and resources are the same; in the code's place is the GPU IR."""
    whole, _ = plan_of(sandbox, POINTWISE, Depth.CODE)
    left_out, blobs = plan_of(sandbox, POINTWISE, depth)
    ((before,), (after,)) = whole.kernels, left_out.kernels
    assert evolve(after, binary=before.binary) == before
    assert evolve(left_out, kernels=whole.kernels) == whole
    assert b"tt.func public" in blobs[after.binary or ""]
    assert b"loc(" not in blobs[after.binary or ""]


def test_what_was_not_assembled_is_compiled_alike_from_its_text(sandbox: Sandbox) -> None:
    """A clean child comes to the same GPU IR, also where it goes on to PTX, and to another code where it assembles."""
    plan, _ = plan_of(sandbox, POINTWISE, Depth.LAYOUTS)
    assert recompile(sandbox, POINTWISE, plan, Depth.LAYOUTS)[0].kernels == plan.kernels
    assert recompile(sandbox, POINTWISE, plan, Depth.PTX)[0].kernels == plan.kernels
    made, reply = recompile(sandbox, POINTWISE, plan)
    assert made.kernels != plan.kernels
    assert made.gpu_ir == tuple(kernel.binary for kernel in plan.kernels)
    assert {kernel.binary for kernel in made.kernels} == {*reply.blobs}


@pytest.mark.parametrize("shape", [(8, 16), (5, 7)])
@pytest.mark.parametrize("profile", [Profile.TINY, Profile.DECLARED])
def test_code_of_a_clean_child_is_what_the_recording_one_would_have_made(
    sandbox: Sandbox, shape: tuple[int, int], profile: Profile
) -> None:
    """For any numbers or for these, the plan that stopped at the GPU IR comes to that which did not."""
    asked = [request(shape, profile=profile, compile=True)]
    whole = sandbox.record(POINTWISE, asked, Depth.CODE)
    plan = only(sandbox.record(POINTWISE, asked, Depth.LAYOUTS)).plan
    assert plan is not None
    wanted = RecompileRequest(plan=plan, is_specialised=profile is Profile.DECLARED)
    reply = sandbox.recompile(POINTWISE, [wanted])
    (made,) = reply.made
    assert give_code(plan, made.kernels, made.gpu_ir) == only(whole).plan
    assert {*reply.blobs.items()} <= {*whole.blobs.items()}
    other = evolve(plan, kernels=tuple(evolve(kernel, binary="0" * 64) for kernel in plan.kernels))
    failure = give_code(other, made.kernels, made.gpu_ir)
    assert isinstance(failure, Failure)
    assert failure.outcome is Outcome.DISGUISED


def test_what_the_assembler_refuses_is_no_fault_of_other_plans(sandbox: Sandbox) -> None:
    """A clean child tells of each plan by itself."""
    right, _ = plan_of(sandbox, POINTWISE, Depth.LAYOUTS)
    (kernel,) = right.kernels
    wrong = evolve(right, kernels=(evolve(kernel, qualname="another"),))
    reply = sandbox.recompile(POINTWISE, [RecompileRequest(plan=each) for each in (wrong, right)])
    refused, made = reply.made
    assert refused.failure is not None
    assert refused.failure.outcome is Outcome.UNSUPPORTED
    assert made.failure is None


@pytest.mark.parametrize("depth", Depth)
def test_assembly_of_ones_own_meets_the_assembler(sandbox: Sandbox, depth: Depth) -> None:
    """A line that is none does not compile, whether or not the code is wanted; a right one does."""
    failure = only(sandbox.record(with_assembly("no.such.instruction $0, $1;"), DECLARED, depth)).failure
    assert failure is not None
    assert failure.outcome is Outcome.COMPILE_FAILED
    assert "ptxas" in failure.message
    plan_of(sandbox, with_assembly("mov.b32 $0, $1;"), depth)


@pytest.mark.parametrize("depth", Depth)
def test_registers_are_those_of_the_code_that_would_be_loaded(sandbox: Sandbox, depth: Depth) -> None:
    """Host code that asks for them makes the same grid of them, and goes on without the assembler."""
    whole, blobs = plan_of(sandbox, POINTWISE, Depth.CODE)
    registers = find_registers(blobs[whole.kernels[0].binary or ""])
    launch = "double_kernel[(triton.cdiv(n, 128),)]"
    assert launch in POINTWISE
    warmed = "double_kernel.warmup(x, y, n, 2.0, BLOCK=128, num_warps=2, grid=(1,))"
    asking = POINTWISE.replace(launch, f"made = {warmed}\n        double_kernel[(made.n_regs,)]")
    plan, blobs = plan_of(sandbox, asking, depth)
    assert plan.launches[0].grid == (registers, 1, 1)
    assert (b"tt.func public" in blobs[plan.kernels[0].binary or ""]) is (depth is not Depth.CODE)


def test_divisibility_is_told_to_the_compiler_at_the_declared_sizes_alone(sandbox: Sandbox) -> None:
    """At others one compilation serves what 16 divides and what it does not, and is none of the declared sizes'."""

    def codes(profile: Profile) -> list[str | None]:
        asked = [request(shape, profile=profile, compile=True) for shape in ((8, 16), (5, 7))]
        plans = [recording.plan for recording in sandbox.record(POINTWISE, asked).recordings]
        return [plan.kernels[0].binary for plan in plans if plan is not None]

    even, odd = codes(Profile.DECLARED)
    assert even != odd
    assert codes(Profile.BEYOND) == [odd, odd]
