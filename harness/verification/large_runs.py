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

import torch
from attrs import evolve, frozen

from ...core.candidate import Failure, RunReport, Variant
from ...core.outcome import Outcome
from ...core.plan import BufferKind, LaunchPlan, View
from ...core.run import InitArgument, RunResult, TensorSpec
from ...core.seeds import derive
from ...core.serialisation import fingerprint, from_plain, to_plain
from ...core.task import Profile, Task
from ...stages.judge_run import find_trespass
from ...stages.roofline import ITEM_BYTES
from ...stages.variant_inputs import VariantInputs
from ..errors import TooLargeError
from ..gpu.backend import CudaBackend, place, try_twice
from ..gpu.processes import Executor, Lost
from ..gpu.shared_oracle import SharedOracle
from ..reference.device_comparison import compare_on_device
from ..reference.oracle import ExpectedRun
from ..reference.reference import torch_dtype
from ..reference.values import DrawnInputs
from ..sandbox.wire import read_run_result
from .context import VerifierContext
from .storages import fill_storages

_LIMITS = 4
"""A run on gigabytes may take so many times a run's limit: its inputs are drawn within it."""
IN_FLOAT64, AT_LEAST = 8.0, 4.0
"""The GPU's memory that a run takes for each byte that its reference does (`measure_peak`): with one in float64, and at
the least."""
_BYTES_A_PARAMETER = 6
"""The host's memory for each byte of a parameter: the values, and copies in the frame, sent, received and placed."""
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
    largest_safe = oracle.traits(task).largest_safe
    seed = derive(oracle.seed, fingerprint(task), "inputs", inputs.stream)
    computed_in = ""
    with asked_for(task, context):
        model = oracle.build_there(task, inputs.dtype, seeded_parameters)
        drawn = DrawnInputs(task=task, dtype=inputs.dtype, seed=seed)
        run = LargeRun(task=task, drawn=drawn, model=model, dtype=torch.float64)
        found = compute_large(run, plan, context)
        if isinstance(found, Failure):
            return RunReport(variant=inputs.variant, seconds=time.perf_counter() - began, failure=found)
        pairs, computed_in = found
        comparisons = tuple(
            evolve(
                compare_on_device(actual, expected, view.dtype, dtype, largest_safe),
                share_of_tolerance=share_of_tolerance,
            )
            for view, actual, expected, dtype in pairs
        )
        del pairs, found
    return RunReport(
        variant=inputs.variant,
        seconds=time.perf_counter() - began,
        comparisons=comparisons,
        oracle_dtype=computed_in,
    )


@contextmanager
def asked_for(task: Task, context: VerifierContext) -> Iterator[None]:
    """Hold the memory of one large run, of the host and of the GPU."""
    oracle = context.oracle
    assert isinstance(oracle, SharedOracle)
    num_bytes = oracle.measure_bytes(task, Profile.DECLARED)
    most = context.gpu_budget.num_bytes
    needed = min(IN_FLOAT64 * num_bytes, most) if AT_LEAST * num_bytes <= most else AT_LEAST * num_bytes
    of_host = min(_BYTES_A_PARAMETER * oracle.measure_parameters(task), context.budget.num_bytes)
    with (
        context.gpu_budget.asked(needed, f"{task.task_id}, on the GPU"),
        context.budget.asked(of_host, task.task_id),
        oracle.confined(needed),
    ):
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
        storages = _fill(run, plan, context)
    if isinstance(storages, Failure):
        return storages
    expected, computed_in = oracle.compute_there(task, run.model, run.drawn, run.dtype)
    dtypes = oracle.result_dtypes(task, run.drawn.dtype)
    result, outputs = run_large(cuda, plan, storages, run.drawn, oracle.device)
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


def _fill(run: LargeRun, plan: LaunchPlan, context: VerifierContext) -> dict[int, bytes] | Failure:
    """The bytes of parameters and constants; inputs must be those that the task has."""
    specs = context.oracle.build(run.task, Profile.DECLARED, run.drawn.dtype).inputs
    for buffer in plan.buffers:
        if buffer.kind is BufferKind.INPUT:
            position = int(buffer.name) if buffer.name.isascii() and buffer.name.isdigit() else len(specs)
            spec = specs[position] if position < len(specs) else None
            if getattr(spec, "dtype", None) != buffer.dtype or _count_stored(spec) != buffer.num_elements:
                return Failure(Outcome.BROKEN_PROTOCOL, f"no values fit {buffer.kind} {buffer.name!r} of the plan")
    parameters = {name: value.detach() for name, value in run.model.state_dict().items()}
    values = ExpectedRun(inputs=(), parameters=parameters, expected=(), dtypes=())
    return fill_storages(plan, values, context.store.get_blob, leave_out=BufferKind.INPUT)


def _count_stored(spec: TensorSpec | InitArgument | None) -> int:
    if not isinstance(spec, TensorSpec):
        return -1
    return math.prod(spec.shape) if spec.stride is None else spec.storage_size


def run_large(
    cuda: CudaBackend, plan: LaunchPlan, storages: dict[int, bytes], drawn: DrawnInputs, device: str
) -> tuple[RunResult, list[torch.Tensor]]:
    """Run a plan on inputs that its executor draws: its result without outputs, and these on `device`, as bytes.

    `storages` have the initial values of all buffers but inputs and temporaries.
    """
    blobs: list[bytes] = []
    header = {
        "kind": "run large",
        "plan": to_plain(plan),
        "storages": place(storages, blobs),
        "drawn": to_plain(drawn),
        "binaries": cuda.binaries([plan], blobs),
    }
    try:
        with cuda.executor() as executor:
            reply, _ = try_twice(executor, lambda: cuda.ask(executor, header, blobs, _LIMITS * cuda.limit_s))
            if reply["failure"] is not None:
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


def _fetch(cuda: CudaBackend, executor: Executor, number: int, size: int, device: str) -> torch.Tensor:
    """An output's bytes, through the memory that both processes have."""
    found = torch.empty(size, dtype=torch.uint8, device=device)
    step = len(executor.window)
    for start in range(0, size, step):
        stop = min(size, start + step)
        cuda.ask(executor, {"kind": "fetch", "output": number, "start": start, "stop": stop}, [])
        found[start:stop].copy_(executor.window[: stop - start])
    return found
