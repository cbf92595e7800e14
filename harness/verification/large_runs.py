"""Runs at declared sizes that are too large to pass through the host: on a GPU, whole, and compared there.

Inputs are drawn on the GPU by the oracle and by the executor, from one seed. The reference's results stay there, and so
does a copy of the plan's; they are compared piece by piece. Only parameters pass through the host, which are asked for,
as the GPU's memory is, before anything is computed. What needs more than there is is refused with its size.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from attrs import evolve, frozen

from ...core.candidate import Failure, RunReport, Variant
from ...core.outcome import Outcome
from ...core.plan import BufferKind, LaunchPlan, View
from ...core.run import InitArgument, RunResult, TensorSpec
from ...core.seeds import derive
from ...core.serialisation import fingerprint, from_plain, to_plain
from ...core.task import Profile, Task
from ...stages.judge_run import find_trespass, judge_run
from ...stages.roofline import ITEM_BYTES
from ...stages.variant_inputs import VariantInputs
from ..errors import TooLargeError
from ..gpu.backend import CudaBackend, try_twice
from ..gpu.processes import Executor, Lost
from ..gpu.shared_oracle import SharedOracle
from ..reference.device_comparison import compare_on_device, leave_out_lost
from ..reference.expected_run import ExpectedRun
from ..reference.reference import torch_dtype
from ..reference.values import DrawnInputs
from ..sandbox.wire import read_run_result
from .context import VerifierContext
from .storages import find_values

_LIMITS = 4
"""A run on gigabytes may take so many times a run's limit: its inputs are drawn within it."""
IN_FLOAT64, AT_LEAST = 8.0, 4.0
"""The GPU's memory that a run takes for each byte that its reference does (`measure_peak`): with one in float64, and at
the least."""
_HOST_BYTES = 2
"""The host's memory for each byte of a parameter that a processor draws: the values, and a copy to compute with."""
_MOST_TIMES_THE_REFERENCE = 4

Pair = tuple[View, torch.Tensor, torch.Tensor, str]
"""A result's view in the plan, its values, the expected ones, and the reference's dtype."""


@frozen(kw_only=True)
class LargeRun:
    """What a plan is run on and compared with; `dtype` is the one to compute the reference in."""

    task: Task
    drawn: DrawnInputs
    model: torch.nn.Module
    dtype: torch.dtype


def is_large(task: Task, context: VerifierContext, inputs: VariantInputs) -> bool:
    """Whether a variant's inputs are never in the host's memory."""
    return (
        context.cuda is not None
        and inputs.variant is Variant.DECLARED
        and context.profile_of(task) is not Profile.DECLARED
    )


def run_large_variant(
    task: Task,
    context: VerifierContext,
    inputs: VariantInputs,
    plan: LaunchPlan,
    seeded_parameters: frozenset[str],
    share_of_tolerance: float,
) -> RunReport:
    """Run a plan at the declared sizes and compare it by the audit's tolerance; raises TooLargeError."""
    began = time.perf_counter()
    oracle = context.oracle
    assert isinstance(oracle, SharedOracle)
    seed = derive(oracle.seed, fingerprint(task), "inputs", inputs.stream)
    drawn = DrawnInputs(task=task, dtype=inputs.dtype, seed=seed)
    with asked_for(task, context), _made(task, context, inputs.dtype, seeded_parameters) as model:
        run = LargeRun(task=task, drawn=drawn, model=model, dtype=torch.float64)
        found = compute_large(run, plan, context)
        if isinstance(found, Failure):
            report = RunReport(variant=inputs.variant, failure=found)
        else:
            report = _compare(run, *found, context, inputs, share_of_tolerance)
        del found
    return evolve(report, seconds=time.perf_counter() - began)


def _compare(
    run: LargeRun,
    pairs: list[Pair],
    computed_in: str,
    context: VerifierContext,
    inputs: VariantInputs,
    share_of_tolerance: float,
) -> RunReport:
    """The report of results beside the reference's; elements that this itself misses in its own dtype judge nobody."""
    oracle = context.oracle
    assert isinstance(oracle, SharedOracle)
    largest_safe = oracle.traits(run.task).largest_safe

    def report() -> RunReport:
        comparisons = (
            compare_on_device(actual, expected, view.dtype, dtype, largest_safe)
            for view, actual, expected, dtype in pairs
        )
        shared = tuple(evolve(each, share_of_tolerance=share_of_tolerance) for each in comparisons)
        return RunReport(variant=inputs.variant, comparisons=shared, oracle_dtype=computed_in)

    found = report()
    if judge_run(found) is None or computed_in != "float64":
        return found
    # only now, since it runs the reference once more
    own, _ = oracle.compute_there(run.task, run.model, run.drawn, torch_dtype(inputs.dtype))
    for number, (view, actual, expected, dtype) in enumerate(pairs):
        kept = leave_out_lost(actual, expected, own[number], dtype, share_of_tolerance, largest_safe)
        pairs[number] = (view, actual, kept, dtype)
    return report()


@contextmanager
def _made(
    task: Task, context: VerifierContext, dtype: str, seeded_parameters: frozenset[str]
) -> Iterator[torch.nn.Module]:
    """The reference's model, on the GPU where it can be made there and no parameter is as a processor draws it.

    Elsewhere it takes half a minute for gigabytes, and the host's memory.
    """
    oracle = context.oracle
    assert isinstance(oracle, SharedOracle)
    model = None if seeded_parameters else oracle.build_there(task, dtype)
    if model is not None:
        yield model
        return
    with parameters_asked_for(task, context):
        yield oracle.build_model(task, Profile.DECLARED, dtype, seeded_parameters)


@contextmanager
def parameters_asked_for(task: Task, context: VerifierContext) -> Iterator[None]:
    """Hold the host's memory of parameters at the declared sizes, and of a copy."""
    needed = _HOST_BYTES * context.oracle.measure_parameters(task)
    with context.budget.asked(min(needed, context.budget.num_bytes), task.task_id):
        yield


@contextmanager
def asked_for(task: Task, context: VerifierContext) -> Iterator[None]:
    """Hold the GPU's memory of one large run."""
    oracle = context.oracle
    assert isinstance(oracle, SharedOracle)
    num_bytes = oracle.measure_bytes(task, Profile.DECLARED)
    most = context.gpu_budget.num_bytes
    needed = min(IN_FLOAT64 * num_bytes, most) if AT_LEAST * num_bytes <= most else AT_LEAST * num_bytes
    with context.gpu_budget.asked(needed, f"{task.task_id}, on the GPU"), oracle.confined(needed):
        try:
            yield
        except torch.cuda.OutOfMemoryError as error:
            message = f"{task.task_id}: the GPU's memory does not suffice at its declared sizes"
            raise TooLargeError(message) from error


def compute_large(run: LargeRun, plan: LaunchPlan, context: VerifierContext) -> tuple[list[Pair], str] | Failure:
    """The plan's results beside the reference's, on the GPU, or why there are none."""
    oracle, cuda, task = context.oracle, context.cuda, run.task
    assert isinstance(oracle, SharedOracle)
    assert cuda is not None
    with cuda.executors[0].lock.shared():  # parameters may lie on the GPU
        values = _find(run, plan, context)
    if isinstance(values, Failure):
        return values
    expected, computed_in = oracle.compute_there(task, run.model, run.drawn, run.dtype)
    dtypes = oracle.result_dtypes(task, run.drawn.dtype)
    result, outputs = run_large(cuda, plan, values, run.drawn, oracle.device)
    failure = result.failure or find_trespass(plan, result.out_of_bounds, result.mutated)
    if failure is not None:
        if failure.outcome is Outcome.MEMORY_LIMIT and _is_modest(plan, task, context):
            raise TooLargeError(f"{task.task_id}: the GPU's memory does not suffice for a run at its declared sizes")
        return failure
    if len(outputs) != len(plan.outputs) or len(outputs) != len(expected):
        return Failure(Outcome.WRONG_SIGNATURE, f"returns {len(plan.outputs)} tensors, the reference {len(expected)}")
    pairs = zip(outputs, plan.outputs, strict=True)
    found = [data.view(torch_dtype(view.dtype)).reshape(view.shape) for data, view in pairs]
    return list(zip(plan.outputs, found, expected, dtypes, strict=True)), computed_in


def _is_modest(plan: LaunchPlan, task: Task, context: VerifierContext) -> bool:
    """Whether a plan takes no more memory than the task gives it reason to."""
    num_bytes = sum(buffer.num_elements * ITEM_BYTES.get(buffer.dtype, 8) for buffer in plan.buffers)
    return num_bytes <= _MOST_TIMES_THE_REFERENCE * context.oracle.measure_bytes(task, Profile.DECLARED)


def _find(run: LargeRun, plan: LaunchPlan, context: VerifierContext) -> dict[int, torch.Tensor | bytes] | Failure:
    """The values of parameters and constants; inputs must be those that the task has."""
    specs = context.oracle.build(run.task, Profile.DECLARED, run.drawn.dtype).inputs
    for buffer in plan.buffers:
        if buffer.kind is BufferKind.INPUT:
            position = int(buffer.name) if buffer.name.isascii() and buffer.name.isdigit() else len(specs)
            spec = specs[position] if position < len(specs) else None
            if getattr(spec, "dtype", None) != buffer.dtype or _count_stored(spec) != buffer.num_elements:
                return Failure(Outcome.BROKEN_PROTOCOL, f"no values fit {buffer.kind} {buffer.name!r} of the plan")
    parameters = {name: value.detach() for name, value in run.model.state_dict().items()}
    known = ExpectedRun(inputs=(), parameters=parameters, expected=(), dtypes=())
    return find_values(plan, known, context.store.get_blob, leave_out=BufferKind.INPUT)


def _count_stored(spec: TensorSpec | InitArgument | None) -> int:
    if not isinstance(spec, TensorSpec):
        return -1
    return math.prod(spec.shape) if spec.stride is None else spec.storage_size


def run_large(
    cuda: CudaBackend, plan: LaunchPlan, values: dict[int, torch.Tensor | bytes], drawn: DrawnInputs, device: str
) -> tuple[RunResult, list[torch.Tensor]]:
    """Run a plan on inputs that its executor draws: its result without outputs, and these on `device`, as bytes.

    `values` are the initial ones of all buffers but inputs and temporaries.
    """
    blobs: list[bytes] = []
    header = {
        "kind": "run large",
        "plan": to_plain(plan),
        "drawn": to_plain(drawn),
        "binaries": cuda.binaries([plan], blobs),
    }

    def run(executor: Executor) -> dict[str, Any]:
        for index, value in values.items():
            reply = _give(cuda, executor, index, value)
            if reply["failure"] is not None:
                return reply
        return cuda.ask(executor, header, blobs, _LIMITS * cuda.limit_s)[0]

    try:
        with cuda.executor() as executor:
            reply = try_twice(executor, lambda: run(executor))
            if reply["failure"] is not None:
                cuda.ask(executor, {"kind": "let go"}, [])
                return RunResult(variant=Variant.DECLARED, failure=from_plain(reply["failure"], Failure)), []
            result = read_run_result(reply["result"], [])
            if result.out_of_bounds:  # the child has ended
                return result, []
            try:
                outputs = [_fetch(cuda, executor, number, size, device) for number, size in enumerate(reply["sizes"])]
            finally:
                cuda.ask(executor, {"kind": "let go"}, [])
            return result, outputs
    except Lost as lost:
        return RunResult(variant=Variant.DECLARED, failure=lost.failure), []


def _give(cuda: CudaBackend, executor: Executor, index: int, value: torch.Tensor | bytes) -> dict[str, Any]:
    """Have a buffer's initial values in the executor; the last reply, or the first that tells a failure."""
    data = torch.frombuffer(bytearray(value), dtype=torch.uint8) if isinstance(value, bytes) and value else value
    flat = torch.empty(0, dtype=torch.uint8) if isinstance(data, bytes) else data.contiguous().view(torch.uint8)
    step = len(executor.window)
    reply: dict[str, Any] = {"failure": None}
    for start in range(0, max(1, len(flat)), step):
        stop = min(len(flat), start + step)
        with executor.lock.shared():
            executor.window[: stop - start].copy_(flat[start:stop])
        place = {"buffer": index, "size": len(flat), "start": start, "stop": stop}
        reply, _ = cuda.ask(executor, {"kind": "give", **place}, [])
        if reply["failure"] is not None:
            break
    return reply


def _fetch(cuda: CudaBackend, executor: Executor, number: int, size: int, device: str) -> torch.Tensor:
    """An output's bytes, through the memory that both processes have."""
    found = torch.empty(size, dtype=torch.uint8, device=device)
    step = len(executor.window)
    for start in range(0, size, step):
        stop = min(size, start + step)
        cuda.ask(executor, {"kind": "fetch", "output": number, "start": start, "stop": stop}, [])
        found[start:stop].copy_(executor.window[: stop - start])
    return found
