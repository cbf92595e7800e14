"""Truth values as arguments, floats that are exchanged, and decorators that describe launches."""

from __future__ import annotations

import numpy as np
import pytest
from tritonrl.core.candidate import RunReport, Variant
from tritonrl.core.outcome import Outcome
from tritonrl.core.plan import ArgumentKind, LaunchPlan
from tritonrl.core.run import RunRequest
from tritonrl.core.task import Profile
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.stages.judge_run import judge_run

from ..conftest import only, recompile, request
from ..kernels import HEADER, POINTWISE


def source_of(body: str, flag: str = "True", parameter: str = "flag", dtype: str = "float32") -> str:
    """A kernel of eight lanes with `x`, `at` and `flag`, whose body stores to `y_ptr`."""
    return (
        HEADER
        + f"@triton.jit\ndef kernel(x_ptr, y_ptr, {parameter}, BLOCK: tl.constexpr):\n"
        + "    at = tl.arange(0, BLOCK)\n    x = tl.load(x_ptr + at)\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
        + "\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n"
        + f"        y = torch.full((8,), 5.0, dtype=torch.{dtype}, device=x.device)\n"
        + f"        kernel[(1,)](x, y, {flag}, BLOCK=8)\n        return y\n"
    )


def record(sandbox: Sandbox, source: str) -> LaunchPlan:
    """The plan for eight elements, compiled as well."""
    reply = sandbox.record(source, [request((8,), profile=Profile.DECLARED, compile=True), request((8,))])
    assert [recording.failure for recording in reply.recordings] == [None, None]
    plan = reply.recordings[1].plan
    assert plan is not None
    return plan


def run(sandbox: Sandbox, source: str, dtype: str = "float32") -> list[float]:
    """The results for the inputs 1 to 8."""
    plan = record(sandbox, source)
    values = np.arange(1.0, 9.0, dtype=np.float32).tobytes()
    reply = sandbox.run(source, [RunRequest(variant=Variant.ORIGINAL, plan=plan, storages={0: values})])
    assert reply.failure is None, reply.failure
    assert reply.results[0].failure is None, reply.results[0].failure
    return [float(value) for value in np.frombuffer(reply.results[0].outputs[0], dtype)]


ONE_TO_EIGHT = [float(number) for number in range(1, 9)]
FLAGS = {
    "branch": "if flag:\n    x = -x\ntl.store(y_ptr + at, x)",
    "condition": "tl.store(y_ptr + at, tl.where(flag, -x, x))",
    "factor": "tl.store(y_ptr + at, x * (1 - 2 * flag.to(tl.int32)))",
    "sum": "tl.store(y_ptr + at, x - 2 * x * (flag + 0))",
    "with a mask": "tl.store(y_ptr + at, tl.where(flag & (at < 8), -x, x))",
    "negation": "if not flag:\n    x = -x\ntl.store(y_ptr + at, -x)",
}


@pytest.mark.parametrize(
    "condition", ["tl.load(x_ptr) > 0.5", "tl.max(x, axis=0) >= 8.0", "flag > 0.5", "tl.max(at, axis=0) == 7"]
)
def test_a_comparison_of_numbers_joins_a_mask(sandbox: Sandbox, condition: str) -> None:
    """A block is made of its result, a truth value whatever was compared."""
    body = f"mask = (at < 4) & ({condition})\ntl.store(y_ptr + at, x, mask=mask | (5.0 < tl.sum(x * 0.0)))"
    assert run(sandbox, source_of(body, "0.75")) == [*ONE_TO_EIGHT[:4], *[5.0] * 4]


@pytest.mark.parametrize("flag", ["True", "False"])
@pytest.mark.parametrize("name", FLAGS)
def test_a_truth_value_is_an_argument(sandbox: Sandbox, name: str, flag: str) -> None:
    """It decides branches and conditions, and counts as 0 or 1 beside numbers."""
    source = source_of(FLAGS[name], flag)
    assert record(sandbox, source).launches[0].arguments[2].kind is ArgumentKind.BOOL
    sign = -1.0 if flag == "True" else 1.0
    assert run(sandbox, source) == [sign * number for number in ONE_TO_EIGHT]


def test_a_truth_value_for_a_number_is_refused(sandbox: Sandbox) -> None:
    """Compiled code takes it as the annotation says."""
    source = source_of("tl.store(y_ptr + at, x * flag)", parameter="flag: tl.int32")
    recording = only(sandbox.record(source, [request((8,))]))
    assert recording.failure is not None
    assert recording.failure.outcome is Outcome.UNSUPPORTED
    assert "int(flag)" in recording.failure.message


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("tl.atomic_xchg(y_ptr + at, x)", ONE_TO_EIGHT),
        ("tl.atomic_xchg(y_ptr + at, x, mask=at < 4)", [*ONE_TO_EIGHT[:4], *[5.0] * 4]),
        ("old = tl.atomic_xchg(y_ptr + at, -x)\ntl.debug_barrier()\ntl.store(y_ptr + at, old + x)", None),
        ("tl.atomic_xchg(y_ptr, tl.sum(x))", [36.0, *[5.0] * 7]),
        ("tl.atomic_xchg(y_ptr + at, x / 0.0)", [float("inf")] * 8),
    ],
)
def test_floats_are_exchanged(sandbox: Sandbox, body: str, wanted: list[float] | None, dtype: str) -> None:
    """The new value is stored where the mask allows, and the old one returned."""
    wanted = [5.0 + number for number in ONE_TO_EIGHT] if wanted is None else wanted
    assert run(sandbox, source_of(body, dtype=dtype), dtype) == wanted


def test_a_method_of_an_argument_of_one_is_not_compiled(sandbox: Sandbox) -> None:
    """Compiled in, it is a number of Python's that has none: the compiler's refusal, at a size of one too."""
    source = source_of("tl.store(y_ptr + at, x * flag.to(tl.float32))", "1")
    plan = only(sandbox.record(source, [request((8,))])).plan
    assert plan is not None
    asked = RunRequest(variant=Variant.ORIGINAL, plan=plan, storages={0: bytes(32)})
    failure = sandbox.run(source, [asked]).results[0].failure
    assert failure is not None
    assert failure.outcome is Outcome.COMPILE_FAILED, failure
    assert "Triton compiles an argument of 1 in" in failure.message, failure
    assert judge_run(RunReport(variant=Variant.INNER_ONE, failure=failure)) is None
    assert judge_run(RunReport(variant=Variant.REMAINDER, failure=failure)) == failure


TUPLES = {
    "elements": ("tl.store(y_ptr + at, x * flag[0] + flag[1])", "(2, 0.5)"),
    "a shape": ("tl.store(y_ptr + at, x * 2 + tl.full(flag, 0.5, tl.float32))", "(8,)"),
    "in a loop": (
        "for i in tl.static_range(len(flag)):\n    x += flag[i]\ntl.store(y_ptr + at, 2 * x - 5.5)",
        "(1, 2)",
    ),
}


@pytest.mark.parametrize("name", TUPLES)
def test_a_constexpr_may_be_a_tuple_of_numbers(sandbox: Sandbox, name: str) -> None:
    """Its elements are constants of the kernel."""
    body, value = TUPLES[name]
    source = source_of(body, value, parameter="flag: tl.constexpr")
    wanted = [2.0 * number + 0.5 for number in ONE_TO_EIGHT]
    assert record(sandbox, source).launches[0].arguments[2].kind is ArgumentKind.LIST
    assert run(sandbox, source) == wanted


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("flag", "(1, 2)"), ("flag: tl.constexpr", "(1, (2, 3))"), ("flag: tl.constexpr", "(0,) * 65")],
)
def test_other_tuples_are_refused(sandbox: Sandbox, parameter: str, value: str) -> None:
    """A plan's launch has numbers one by one."""
    source = source_of("tl.store(y_ptr + at, x)", value, parameter)
    recording = only(sandbox.record(source, [request((8,))]))
    assert recording.failure is not None
    assert recording.failure.outcome is Outcome.UNSUPPORTED
    assert "one by one" in recording.failure.message


DESCRIBED = POINTWISE.replace(
    "@triton.jit\n",
    "def describe(*given):\n    raise RuntimeError(dict(seen=given))\n\n\n"
    "@triton.jit(launch_metadata=describe, repr=describe, do_not_specialize=['n'])\n",
)


def test_what_describes_launches_is_not_called(sandbox: Sandbox) -> None:
    """The kernel is compiled under its own name, and from its text alone into the same code."""
    assert "describe" in DESCRIBED
    recording = only(sandbox.record(DESCRIBED, [request((8,), profile=Profile.DECLARED, compile=True)]))
    assert recording.plan is not None, recording.failure
    (kernel,) = recording.plan.kernels
    assert kernel.entry_point == "double_kernel"
    made, _ = recompile(sandbox, DESCRIBED, recording.plan)
    assert made.kernels == recording.plan.kernels


def test_a_launch_by_run_is_a_launch(sandbox: Sandbox) -> None:
    """`kernel[grid](...)` calls it."""
    source = source_of("tl.store(y_ptr + at, -x)").replace(
        "kernel[(1,)](x, y, True, BLOCK=8)", "kernel.run(x, y, True, BLOCK=8, grid=(1,), warmup=False)"
    )
    assert run(sandbox, source) == [-number for number in ONE_TO_EIGHT]
