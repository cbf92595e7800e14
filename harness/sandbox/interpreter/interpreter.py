"""In the interpreting child: set Triton's interpreter up, and run plans on CPU tensors, their kernels in it.

The host code of the candidate does not run, not even to be imported: `kernel_module` makes the kernels from the
source's tree. Where buffers lie is decided in `buffers`, what temporaries and masked lanes hold in `semantics.poison`,
and every access that a kernel makes goes through `accesses`. Triton's interpreter runs a program. Which programs of a
launch run, and in which order, is decided in `programs`, `coverage` and `races`; `vectorized_scan` runs many at once,
for a hint at those that are worth running.
"""

from __future__ import annotations

import math
import time
import traceback
import warnings
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from attrs import evolve, frozen

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
    Step,
    View,
    plain_value,
)
from ....core.run import LaunchSample, RunRequest, RunResult
from ....core.serialisation import from_plain
from ..candidate_module import MODULE_NAME, describe, find_cause
from ..kernel_source import NotKernelLanguage
from ..recording.aten_steps import run_operator
from ..recording.compiled_kernel import differ, run_ahead
from ..warm_up import CANDIDATE, make_plan
from ..wire import Answer, Perform, write_run_result
from . import accesses, hints
from .buffers import MisalignedAccess, Storage, StrayAccess, StrayView, bytes_of, place
from .coverage import WriteCoverage, run_sample, start_coverage
from .interleaving import run_interleaved
from .kernel_module import KernelModule
from .programs import backwards, run_programs
from .races import DataRace, watching
from .semantics import (
    arithmetic,
    blocks,
    control_flow,
    gpu_error,
    libdevice,
    patches,
    reductions,
    rounding,
    scalars,
)
from .semantics.patches import Patch, patched
from .semantics.run_state import Layout, begin_run, current_run, draw_layout
from .vectorized_scan import NotScannable, start_scan

# Where several patches replace one attribute, the later one wraps the earlier: accesses are checked and watched around
# everything that reaches memory, and names of built-ins and types are remembered after all that changes either.
SEMANTICS: tuple[Patch, ...] = (
    *rounding.PATCHES,
    *arithmetic.PATCHES,
    *blocks.PATCHES,
    *control_flow.PATCHES,
    *reductions.PATCHES,
    *libdevice.PATCHES,
    *gpu_error.PATCHES,
    *patches.INDEX_PATCHES,
)
"""Compute what a compiled kernel computes."""

WATCHING: tuple[Patch, ...] = (
    *blocks.ORDER_PATCHES,
    *hints.PATCHES,
    *accesses.PATCHES,
    *patches.SPEED_PATCHES,
    *patches.WORK_PATCHES,
)
"""Confine accesses to the plan's buffers, and let what kernels may not rely on show."""


def install(patches: tuple[Patch, ...]) -> None:
    """Apply patches for the rest of this process; each once."""
    for patch in patches:
        patch.apply()


def prepare(scratch: str) -> Perform:
    """Set this process up for interpreting, warm it, and return what a child performs."""
    assert triton.knobs.runtime.interpret  # its jit functions are the interpreter's, by TRITON_INTERPRET at import
    install(SEMANTICS)
    install(WATCHING)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # NumPy's, of overflow and division in the kernels' arithmetic
    np.random.default_rng(
        np.unique(np.zeros(1, dtype=np.int64))
    )  # before the forks, as NumPy imports at their first call
    perform({"source": CANDIDATE, "requests": [make_plan(CANDIDATE)]}, [bytes(64)], scratch)
    return perform


def perform(request: dict[str, Any], blobs: list[bytes], scratch: str) -> Answer:
    """Read the candidate's kernels and run each request in order."""
    kernels: KernelModule | None = None
    failure: Failure | None = None
    try:
        kernels = KernelModule(request["source"])
    except BaseException as error:
        failure = describe(error, Outcome.IMPORT_FAILED)
    results: list[dict[str, Any]] = []
    outputs: list[bytes] = []
    for plain in request["requests"]:
        began = time.perf_counter()
        if kernels is None:
            result = RunResult(variant=Variant(plain["variant"]), failure=failure)
        else:
            result = evolve(run_plan(_read_request(plain, blobs), kernels), work=current_run().work)
        results.append(write_run_result(evolve(result, seconds=time.perf_counter() - began), outputs))
    return {"results": results}, outputs


def _read_request(plain: dict[str, Any], blobs: list[bytes]) -> RunRequest:
    storages = {int(index): blobs[number] for index, number in plain["storages"].items()}
    return evolve(from_plain({**plain, "storages": {}}, RunRequest), storages=storages)


_DRAWN_LAYOUTS = frozenset(tuple(Variant)[1::2])
"""The runs whose blocks lie in threads as drawn; in the others a thread holds one element at a time."""


class _Cannot(Exception):
    """Ends a run: the plan asks for something that this backend has not."""


_ENDS: dict[type[Exception], Outcome] = {
    **dict.fromkeys((_Cannot, StrayView, NotScannable, NotKernelLanguage), Outcome.UNSUPPORTED),
    DataRace: Outcome.RUN_FAILED,
    StrayAccess: Outcome.OUT_OF_BOUNDS,
    MisalignedAccess: Outcome.RUN_FAILED,
}
_OF_A_LINE = (StrayAccess, MisalignedAccess)


def run_plan(request: RunRequest, kernels: KernelModule) -> RunResult:
    """Execute a plan, or scan it if the request has lanes for that; whatever goes wrong is the result's failure."""
    with patched(rounding.SHORT_PATCHES if request.float_digits else ()):
        if request.num_lanes and not request.num_programs:
            try:
                return _scan(request, kernels)
            except Exception as error:  # no fault of the candidate's
                return RunResult(variant=request.variant, failure=describe(error, Outcome.UNSUPPORTED))
        try:
            return _execute(request, kernels)
        except BaseException as error:
            return RunResult(variant=request.variant, failure=_find_failure(error))


def _find_failure(error: BaseException) -> Failure:
    for kind, outcome in _ENDS.items():
        if (found := find_cause(error, kind)) is not None:
            return Failure(outcome, f"{_find_place(found)} {found}" if kind in _OF_A_LINE else str(found))
    lacking = find_cause(error, AttributeError)
    if lacking is None or not isinstance(lacking.obj, int):
        return describe(error, Outcome.RUN_FAILED)
    failure = describe(error, Outcome.COMPILE_FAILED)  # as the compiler says it, where a GPU runs the plan
    return evolve(failure, message=f"{failure.message}; Triton compiles an argument of 1 in, as a Python number")


def _find_place(error: BaseException) -> str:
    """Return the function of the source that an exception comes from, and its line there."""
    codes = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    places = [f"{code.co_name}, line {line}," for code, line in codes if code.co_filename == f"{MODULE_NAME}.py"]
    return places[-1] if places else "a kernel"


def _execute(request: RunRequest, kernels: KernelModule) -> RunResult:
    plan = request.plan
    _check_plan(plan, request.storages)
    run = begin_run(
        request.seed,
        layout=draw_layout(request.seed) if request.variant in _DRAWN_LAYOUTS else Layout(),
        error_seed=request.seed if request.variant is Variant.REVERSED else None,
        holds_zeros=request.reverse,
        float_digits=request.float_digits,
    )
    storages = place(plan, request.storages, run, is_coarse=request.reverse)
    memory = _Memory(storages, kernels)
    views = [memory.view(view) for view in plan.outputs]
    coverage = start_coverage(plan, [storage.memory for storage in storages]) if request.num_programs else None
    for step in plan.steps:
        _run_step(step, request, memory, coverage)
    return RunResult(
        variant=request.variant,
        outputs=tuple(map(bytes_of, views)),
        written=() if coverage is None else tuple(map(coverage.written_bits, views)),
        tainted=() if coverage is None else tuple(map(coverage.tainted_bits, views)),
        sample=None if coverage is None else tuple(coverage.launches),
        mutated=tuple(index for index, storage in enumerate(storages) if storage.is_changed()),
    )


def _check_plan(plan: LaunchPlan, given: dict[int, bytes]) -> None:
    """Raise _Cannot where arithmetic of PyTorch has no step, or a buffer that nobody fills has no values."""
    if len(plan.arithmetic) != len(plan.operators):
        raise _Cannot(f"the plan has PyTorch arithmetic: {', '.join(plan.arithmetic[:5])}")
    missing = [
        buffer.name
        for index, buffer in enumerate(plan.buffers)
        if buffer.kind is not BufferKind.TEMPORARY and index not in given
    ]
    if missing:
        raise _Cannot(f"no values for {', '.join(missing[:5])}")


def _run_step(step: Step, request: RunRequest, memory: _Memory, coverage: WriteCoverage | None) -> None:
    match step:
        case Fill():
            filled = memory.fill(step)
            if coverage is not None:
                coverage.fill(filled)
        case Copy():
            source, target = memory.view(step.source), memory.view(step.target)
            if coverage is not None:
                coverage.carry(step, source, target)
            target.copy_(source.clone())
        case Operator():
            run_operator(step, memory.view)
        case Launch() if coverage is not None and _runs_at_once(step, request):
            _launch_at_once(request.plan.kernels[step.kernel], step, request, memory, coverage)
        case Launch():
            _launch(request.plan.kernels[step.kernel], step, request, memory, coverage)


def _runs_at_once(launch: Launch, request: RunRequest) -> bool:
    """Return whether a launch has others after it that need all of what it writes, and too many programs to run."""
    is_last = launch is request.plan.launches[-1]
    return request.num_lanes > 0 and not is_last and math.prod(launch.grid) > request.num_programs


def _launch_at_once(
    kernel: Kernel, launch: Launch, request: RunRequest, memory: _Memory, coverage: WriteCoverage
) -> None:
    """Run all programs of a launch at once; raises NotScannable where that is not possible."""
    function, arguments = memory.find_kernel(kernel, launch)
    scan = start_scan(memory.buffers, memory.item_bytes, request.num_lanes, request.seed)
    with coverage.watching_whole(kernel, launch):
        scan.run(function, launch, arguments)


def _launch(
    kernel: Kernel, launch: Launch, request: RunRequest, memory: _Memory, coverage: WriteCoverage | None
) -> None:
    """Run a launch's programs, watched; those that rely on atomics once more, one within another."""
    function, arguments = memory.find_kernel(kernel, launch)
    buffers, item_bytes = memory.buffers, memory.item_bytes
    before = [each.clone() for each in buffers] if coverage is None else []
    accesses = _accesses_by_buffer(kernel, launch)
    spread = [buffers[index] for index, found in accesses.items() if differ(found)]
    ahead = [buffers[index] for index, found in accesses.items() if run_ahead(found)]
    with (
        hints.checking_hints(function, launch.grid, arguments),
        watching(buffers, item_bytes, spread, ahead) as watch,
    ):
        if coverage is not None:
            run_sample(function, kernel, launch, arguments, request, coverage)
        elif request.reverse:
            run_programs(function, launch.grid, arguments, backwards(launch.grid))
        else:
            function.run(grid=launch.grid, warmup=False, **arguments)
    if before and watch.relies_on_atomics:
        after = [each.clone() for each in buffers]
        _set(buffers, before)
        run_interleaved(function, launch.grid, arguments, buffers, item_bytes)
        _set(buffers, after)


def _scan(request: RunRequest, kernels: KernelModule) -> RunResult:
    """Run all programs at once, as far as that is possible; raises where it is not."""
    plan = request.plan
    storages = place(plan, request.storages, begin_run(request.seed, float_digits=request.float_digits))
    memory = _Memory(storages, kernels)
    scan = start_scan(memory.buffers, memory.item_bytes, request.num_lanes, request.seed)
    if request.watched is not None:
        output, position = request.watched
        scan.watch(memory.view(plan.outputs[output]), position)
    for step in plan.steps:
        match step:
            case Fill():
                memory.fill(step)
            case Copy():
                scan.carry(memory.view(step.source), memory.view(step.target))
            case Launch():
                function, arguments = memory.find_kernel(plan.kernels[step.kernel], step)
                scan.run(function, step, arguments, is_last=step is plan.launches[-1])
            case _:
                raise NotScannable
    views = [memory.view(view) for view in plan.outputs]
    launches = tuple(
        LaunchSample(written_by_program=tuple(met), num_unknown=number)
        for met, number in zip(scan.met, scan.num_run, strict=True)
    )
    return RunResult(
        variant=request.variant,
        outputs=tuple(map(bytes_of, views)),
        written=tuple(map(scan.writers_of, views)),
        sample=launches,
    )


@frozen
class _Memory:
    """A plan's buffers, and the kernels that are launched on them."""

    storages: list[Storage]
    kernels: KernelModule

    @property
    def buffers(self) -> list[torch.Tensor]:
        """Return the bytes of each buffer."""
        return [storage.memory for storage in self.storages]

    @property
    def item_bytes(self) -> int:
        """Return the size of the smallest elements."""
        return int(min(storage.dtype.itemsize for storage in self.storages))

    def view(self, view: View) -> torch.Tensor:
        """Return the window of a buffer; raises StrayView."""
        return self.storages[view.buffer].view(view)

    def fill(self, step: Fill) -> torch.Tensor:
        """Fill a window with a number, and return it."""
        return self.view(step.target).fill_(float(step.nonfinite or step.value))

    def find_kernel(self, kernel: Kernel, launch: Launch) -> tuple[Any, dict[str, Any]]:
        """Return a launch's kernel and arguments; raises _Cannot and NotKernelLanguage."""
        constants = [argument.name for argument in launch.arguments if argument.constexpr]
        function = self.kernels.kernel(kernel.qualname, kernel.source_sha256, constants)
        if function is None:
            raise _Cannot(f"kernel {kernel.qualname} is not found again in the source")
        annotations = function.fn.__annotations__
        for argument in launch.arguments:
            if argument.kind is ArgumentKind.VIEW and annotations.get(argument.name) == "constexpr":
                raise _Cannot(f"argument {argument.name} of {kernel.qualname} is a tensor as constexpr")
        types = dict(kernel.signature)
        return function, {one.name: self._value(one, types.get(one.name)) for one in launch.arguments}

    def _value(self, argument: Argument, kind: str | None) -> Any:
        match argument.kind:
            case ArgumentKind.VIEW:
                assert argument.view is not None
                return self.view(argument.view)
            case ArgumentKind.BOOL | ArgumentKind.INT | ArgumentKind.FLOAT if not argument.constexpr:
                number = plain_value(argument)
                assert isinstance(number, (bool, int, float))
                return scalars.argument(number, kind)
            case ArgumentKind.DTYPE:
                return getattr(tl, argument.text or "")
            case ArgumentKind.FUNCTION:
                function = self.kernels.function(argument.text or "")
                if function is None:
                    raise _Cannot(f"function {argument.text} is not found again in the source")
                return function
        return plain_value(argument)


def _accesses_by_buffer(kernel: Kernel, launch: Launch) -> dict[int, list[CompiledAccess]]:
    """Return how the compiled kernel accesses each buffer, by whatever parameters."""
    views, found = launch.views, dict[int, list[CompiledAccess]]()
    for access in kernel.accesses:
        if access.parameter in views:
            found.setdefault(views[access.parameter].buffer, []).append(access)
    return found


def _set(memory: list[torch.Tensor], values: list[torch.Tensor]) -> None:
    for each, value in zip(memory, values, strict=True):
        each.copy_(value)
