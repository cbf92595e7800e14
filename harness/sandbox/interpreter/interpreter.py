"""In the interpreting child: execute plans on CPU tensors with Triton's interpreter.

Where buffers lie is decided in `memory`, what temporaries and masked lanes hold in `undefined`, and every access that a
kernel makes goes through `accesses`. The host code of the candidate does not run, not even to be imported:
`kernel_module` makes the kernels from the source's tree.

Triton's interpreter runs a program. Which programs of a launch run, and in which order, is decided in `programs`,
`program_choice` and `interleaving`; `scanning` runs many at once, for a hint at those that are worth running.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import torch

from ....core.candidate import Failure, Variant
from ....core.outcome import Outcome
from ....core.plan import (
    Argument,
    ArgumentKind,
    BufferKind,
    CompiledAccess,
    Copy,
    Fill,
    Kernel,
    Launch,
    LaunchPlan,
    Operator,
    plain_value,
)
from ....core.serialisation import from_plain, to_plain
from ..candidate_module import describe
from ..protocol import LaunchSample, RunResult, Sample
from ..recording.aten_steps import run_operator
from ..recording.compiled_accesses import differ, run_ahead
from .buffers import Storage, StrayAccess, StrayView, bytes_of, place
from .coverage import Writes, follow_writes
from .hints import checking_hints
from .interleaving import run_interleaved
from .kernel_source import NotKernelLanguage
from .lane_order import order_by
from .program_choice import ProgramChoice, run_sample
from .programs import backwards, find_cause, run_programs
from .races import DataRace, watching
from .vectorized_scan import NotScannable, start_scan

Answer = tuple[dict[str, Any], list[bytes]]

_DRAWN_LAYOUTS = frozenset(tuple(Variant)[1::2])
"""The runs whose blocks lie in threads as drawn; in the others a thread holds one element at a time."""


class _Cannot(Exception):
    """The plan asks for something that this backend has not; ends the run with its failure."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.failure = Failure(outcome=outcome, message=message)


def prepare(scratch: str) -> Any:
    """Set this process up for interpreting, warm it, and return what a child performs."""
    import triton  # decorated for the interpreter, by TRITON_INTERPRET at import

    from ..warm_up import CANDIDATE, make_plan
    from . import accesses, hints, lane_order
    from .semantics import (
        bfloat16,
        control_flow,
        conversions,
        gpu_error,
        language_patch,
        libdevice,
        prefix_scans,
        reductions,
    )

    assert triton.knobs.runtime.interpret
    bfloat16.install()
    conversions.install()
    control_flow.install()
    reductions.install()
    prefix_scans.install()
    libdevice.install()
    lane_order.install()
    hints.install()
    gpu_error.install()
    accesses.install()
    language_patch.install()
    _let_tensors_be_indices()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # NumPy's, of overflow and division in the kernels' arithmetic
    np.random.default_rng(
        np.unique(np.zeros(1, dtype=np.int64))
    )  # before the forks, as NumPy imports at their first call
    perform({"source": CANDIDATE, "requests": [make_plan(CANDIDATE)]}, [bytes(64)], scratch)
    return perform


def perform(request: dict[str, Any], blobs: list[bytes], scratch: str) -> Answer:
    """Read the candidate's kernels and run each request in order."""
    from .kernel_module import KernelModule

    results: list[dict[str, Any]] = []
    outputs: list[bytes] = []
    failure: Failure | None = None
    kernels: Any = None
    try:
        kernels = KernelModule(request["source"])
    except BaseException as error:
        failure = describe(error, Outcome.IMPORT_FAILED)
    for plain in request["requests"]:
        began = time.perf_counter()
        variant = Variant(plain["variant"])
        if failure is not None:
            result = RunResult(variant=variant, failure=failure)
        else:
            storages = {int(index): blobs[number] for index, number in plain["storages"].items()}
            choice = ProgramChoice(
                num_programs=plain["num_programs"], seed=plain["seed"], programs=tuple(plain["programs"])
            )
            plan = from_plain(plain["plan"], LaunchPlan)
            if plain["num_lanes"]:
                watched = plain["watched"]
                result = _scan(variant, plan, storages, kernels, plain["seed"], plain["num_lanes"], watched)
            else:
                result = _run(variant, plan, storages, kernels, choice, plain["reverse"])
        first, middle = len(outputs), len(outputs) + len(result.outputs)
        last = middle + len(result.written)
        outputs += (*result.outputs, *result.written, *result.tainted)
        answer = {
            "variant": variant.value,
            "outputs": list(range(first, middle)),
            "written": list(range(middle, last)),
            "tainted": list(range(last, len(outputs))),
            "sample": to_plain(result.sample),
            "mutated": list(result.mutated),
            "out_of_bounds": list(result.out_of_bounds),
            "failure": to_plain(result.failure),
            "seconds": time.perf_counter() - began,
        }
        results.append(answer)
    return {"results": results}, outputs


def _run(
    variant: Variant, plan: LaunchPlan, given: dict[int, bytes], kernels: Any, choice: ProgramChoice, reverse: bool
) -> RunResult:
    from .semantics.combining import lay_out
    from .semantics.control_flow import reorder_by
    from .semantics.gpu_error import approximate_by

    try:
        if len(plan.arithmetic) != len(plan.operators):
            raise _Cannot(Outcome.UNSUPPORTED, f"the plan has PyTorch arithmetic: {', '.join(plan.arithmetic[:5])}")
        missing = [
            buffer.name
            for index, buffer in enumerate(plan.buffers)
            if buffer.kind is not BufferKind.TEMPORARY and index not in given
        ]
        if missing:
            raise _Cannot(Outcome.UNSUPPORTED, f"no values for {', '.join(missing[:5])}")
        storages = place(plan, given, choice.seed, otherwise=reverse)
        reorder_by(choice.seed)
        order_by(choice.seed)
        lay_out(choice.seed if variant in _DRAWN_LAYOUTS else None)
        approximate_by(choice.seed if variant is Variant.REVERSED else None)
        views = [storages[view.buffer].view(view) for view in plan.outputs]
        writes = follow_writes(plan, [storage.memory for storage in storages]) if choice.num_programs else None
        for step in plan.steps:
            match step:
                case Fill():
                    filled = storages[step.target.buffer].view(step.target)
                    filled.fill_(float(step.nonfinite or step.value))
                    if writes is not None:
                        writes.fill(filled)
                case Copy():
                    source = storages[step.source.buffer].view(step.source)
                    target = storages[step.target.buffer].view(step.target)
                    if writes is not None:
                        writes.carry(step, source, target)
                    target.copy_(source.clone())
                case Operator():
                    run_operator(step, lambda view: storages[view.buffer].view(view))
                case Launch():
                    _launch(plan.kernels[step.kernel], step, storages, kernels, choice, writes, reverse)
        return RunResult(
            variant=variant,
            outputs=tuple(map(bytes_of, views)),
            written=() if writes is None else tuple(map(writes.written_bits, views)),
            tainted=() if writes is None else tuple(map(writes.tainted_bits, views)),
            sample=None if writes is None else writes.sample(),
            mutated=tuple(index for index, storage in enumerate(storages) if storage.is_changed()),
        )
    except _Cannot as error:
        return RunResult(variant=variant, failure=error.failure)
    except StrayView as error:
        return RunResult(variant=variant, failure=Failure(outcome=Outcome.UNSUPPORTED, message=str(error)))
    except BaseException as error:
        if refused := find_cause(error, NotKernelLanguage):
            return RunResult(variant=variant, failure=Failure(outcome=Outcome.UNSUPPORTED, message=str(refused)))
        if race := find_cause(error, DataRace):
            return RunResult(variant=variant, failure=Failure(outcome=Outcome.RUN_FAILED, message=str(race)))
        if find_cause(error, StrayAccess):
            return RunResult(
                variant=variant, failure=Failure(outcome=Outcome.OUT_OF_BOUNDS, message=str(StrayAccess()))
            )
        return RunResult(variant=variant, failure=describe(error, Outcome.RUN_FAILED))


def _scan(
    variant: Variant,
    plan: LaunchPlan,
    given: dict[int, bytes],
    kernels: Any,
    seed: int,
    num_lanes: int,
    watched: list[int] | None,
) -> RunResult:
    """All programs at once, as far as that is possible; whatever goes wrong is no fault of the candidate's."""
    from .semantics.combining import lay_out
    from .semantics.gpu_error import approximate_by

    try:
        lay_out(None)
        approximate_by(None)
        storages = place(plan, given, seed)
        memory = [storage.memory for storage in storages]
        scan = start_scan(memory, min(storage.dtype.itemsize for storage in storages), num_lanes, seed)
        if watched is not None:
            view = plan.outputs[watched[0]]
            scan.watch(storages[view.buffer].view(view), watched[1])
        for step in plan.steps:
            match step:
                case Fill():
                    storages[step.target.buffer].view(step.target).fill_(float(step.nonfinite or step.value))
                case Launch() if scan.is_complete:
                    function, arguments = _find_kernel(plan.kernels[step.kernel], step, storages, kernels)
                    scan.run(function, step, arguments)
                case _:
                    raise NotScannable
        views = [storages[view.buffer].view(view) for view in plan.outputs]
        outputs, written = tuple(map(bytes_of, views)), tuple(map(scan.writers_of, views))
        numbers = tuple(
            LaunchSample(written_by_program=tuple(met), num_unknown=number)
            for met, number in zip(scan.met, scan.num_run, strict=True)
        )
        return RunResult(variant=variant, outputs=outputs, written=written, sample=Sample(launches=numbers))
    except Exception as error:
        return RunResult(variant=variant, failure=describe(error, Outcome.UNSUPPORTED))


def _launch(
    kernel: Kernel,
    launch: Launch,
    storages: list[Storage],
    kernels: Any,
    choice: ProgramChoice,
    writes: Writes | None,
    reverse: bool,
) -> None:
    function, arguments = _find_kernel(kernel, launch, storages, kernels)
    memory = [storage.memory for storage in storages]
    item_bytes = min(storage.dtype.itemsize for storage in storages)
    before = [each.clone() for each in memory] if writes is None else []
    accesses = _accesses_by_buffer(kernel, launch)
    spread = [memory[index] for index, found in accesses.items() if differ(found)]
    ahead = [memory[index] for index, found in accesses.items() if run_ahead(found)]
    with (
        checking_hints(function, launch.grid, arguments),
        watching(memory, item_bytes, spread, ahead) as watch,
    ):
        if writes is not None:
            run_sample(function, kernel, launch, arguments, choice, writes)
        elif reverse:
            run_programs(function, launch.grid, arguments, backwards(launch.grid))
        else:
            function.run(grid=launch.grid, warmup=False, **arguments)
    if before and watch.relies_on_atomics:
        after = [each.clone() for each in memory]
        _set(memory, before)
        run_interleaved(function, launch.grid, arguments, memory, item_bytes)
        _set(memory, after)


def _accesses_by_buffer(kernel: Kernel, launch: Launch) -> dict[int, list[CompiledAccess]]:
    """How the compiled kernel accesses each buffer, by whatever parameters."""
    buffers = {argument.name: argument.view.buffer for argument in launch.arguments if argument.view is not None}
    found: dict[int, list[CompiledAccess]] = {}
    for access in kernel.accesses:
        if access.parameter in buffers:
            found.setdefault(buffers[access.parameter], []).append(access)
    return found


def _set(memory: list[torch.Tensor], values: list[torch.Tensor]) -> None:
    for each, value in zip(memory, values, strict=True):
        each.copy_(value)


def _find_kernel(kernel: Kernel, launch: Launch, storages: list[Storage], kernels: Any) -> tuple[Any, dict[str, Any]]:
    """A launch's kernel and arguments."""
    constants = [argument.name for argument in launch.arguments if argument.constexpr]
    function = kernels.kernel(kernel.qualname, kernel.source_sha256, constants)
    if function is None:
        raise _Cannot(Outcome.UNSUPPORTED, f"kernel {kernel.qualname} is not found again in the source")
    annotations = function.fn.__annotations__
    for argument in launch.arguments:
        if argument.kind is ArgumentKind.VIEW and annotations.get(argument.name) == "constexpr":
            raise _Cannot(
                Outcome.UNSUPPORTED, f"argument {argument.name} of {kernel.qualname} is a tensor as constexpr"
            )
    types = dict(kernel.signature)
    return function, {
        argument.name: _value(argument, types.get(argument.name), storages, kernels) for argument in launch.arguments
    }


def _value(argument: Argument, kind: str | None, storages: list[Storage], kernels: Any) -> Any:
    import triton.language as tl

    from .semantics import scalars

    match argument.kind:
        case ArgumentKind.VIEW:
            assert argument.view is not None
            return storages[argument.view.buffer].view(argument.view)
        case ArgumentKind.BOOL | ArgumentKind.INT | ArgumentKind.FLOAT if not argument.constexpr:
            number = plain_value(argument)
            assert isinstance(number, (bool, int, float))
            return scalars.argument(number, kind)
        case ArgumentKind.DTYPE:
            return getattr(tl, argument.text or "")
        case ArgumentKind.FUNCTION:
            function = kernels.function(argument.text or "")
            if function is None:
                raise _Cannot(Outcome.UNSUPPORTED, f"function {argument.text} is not found again in the source")
            return function
    return plain_value(argument)


def _let_tensors_be_indices() -> None:
    """Let a loop's bound be a tensor: Triton 3.6 converts a 1-element array to int, which NumPy 2.4 refuses."""
    from triton.runtime import interpreter

    original = interpreter._patch_lang_tensor

    def patch(tensor: Any, *rest: Any) -> None:
        original(tensor, *rest)
        tensor.__index__ = lambda self: int(self.handle.data.item())

    interpreter._patch_lang_tensor = patch
