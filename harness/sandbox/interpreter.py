"""In the interpreting child: execute plans on CPU tensors with Triton's interpreter.

Each buffer lies between guard bands, so a kernel that writes a little outside it is caught; an access outside all of
them is refused before it happens. What bands, temporaries and masked lanes hold is decided in `undefined`. The host
code of the candidate does not run, not even to be imported: `kernel_module` makes the kernels from the source's tree.

Triton's interpreter patches `triton.language` and rebuilds the kernel's argument list for every launch; the loop over
programs is its own, and is used as it is, for fidelity.
"""

from __future__ import annotations

import ctypes
import time
import warnings
from typing import Any

import torch

from ...core.candidate import Failure, Variant
from ...core.outcome import Outcome
from ...core.plan import (
    Argument,
    ArgumentKind,
    Buffer,
    BufferKind,
    Copy,
    Fill,
    Kernel,
    Launch,
    LaunchPlan,
    Operator,
    View,
)
from ...core.serialisation import from_plain, to_plain
from .candidate_module import describe
from .kernel_source import NotKernelLanguage
from .operators import run_operator
from .protocol import RunResult
from .races import DataRace, watching
from .sampling import Sampling, Writes, follow_writes, run_sample
from .undefined import GUARD_BYTES, StrayAccess, confine_accesses, guard_band, make_unwritten

Answer = tuple[dict[str, Any], list[bytes]]


class _Cannot(Exception):
    """The plan asks for something that this backend has not; ends the run with its failure."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.failure = Failure(outcome=outcome, message=message)


class _Storage:
    """A buffer of the plan in memory, between its guard bands."""

    def __init__(self, buffer: Buffer, index: int, data: bytes | None, whole: torch.Tensor) -> None:
        self.dtype = getattr(torch, buffer.dtype)
        self.num_bytes = _num_bytes(buffer)
        self.guard = guard_band(self.dtype, index)
        self.whole = whole
        self.whole[:GUARD_BYTES], self.whole[GUARD_BYTES + self.num_bytes :] = self.guard, self.guard
        if data is None:
            make_unwritten(self._inside().view(self.dtype))
        elif len(data) != self.num_bytes:
            raise ValueError(f"buffer {buffer.name!r} has {self.num_bytes} bytes, {len(data)} were given")
        elif data:
            self._inside().copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        self.given = data

    def _inside(self) -> torch.Tensor:
        return self.whole[GUARD_BYTES : GUARD_BYTES + self.num_bytes]

    def view(self, view: View) -> torch.Tensor:
        """The strided window."""
        dtype = getattr(torch, view.dtype)
        start = GUARD_BYTES // dtype.itemsize + view.offset
        extent = 1 + sum((size - 1) * step for size, step in zip(view.shape, view.stride, strict=True))
        inside = 0 in view.shape or (view.offset >= 0 and (view.offset + extent) * dtype.itemsize <= self.num_bytes)
        if not inside or any(step < 0 for step in view.stride):
            raise _Cannot(Outcome.UNSUPPORTED, "a view lies outside its buffer")
        odd = self.whole.numel() % dtype.itemsize
        typed = self.whole[: self.whole.numel() - odd].view(dtype)
        return typed.as_strided(view.shape, view.stride, typed.storage_offset() + start)

    def has_intact_guards(self) -> bool:
        """Whether the pattern on both sides is unchanged."""
        before, after = self.whole[:GUARD_BYTES], self.whole[GUARD_BYTES + self.num_bytes :]
        return torch.equal(before, self.guard) and torch.equal(after, self.guard)

    def is_changed(self) -> bool:
        """Whether a given buffer no longer holds what was given."""
        return self.given is not None and bytes_of(self._inside()) != self.given


def bytes_of(tensor: torch.Tensor) -> bytes:
    """A contiguous CPU tensor's bytes."""
    tensor = tensor.contiguous()
    size = tensor.numel() * tensor.element_size()
    return ctypes.string_at(tensor.data_ptr(), size) if size else b""


def prepare(scratch: str) -> Any:
    """Set this process up for interpreting, warm it, and return what a child performs."""
    import triton  # decorated for the interpreter, by TRITON_INTERPRET at import

    from . import bfloat16, compiled_semantics, language_patch, libdevice, races, sampling, undefined
    from .warm_up import CANDIDATE, make_plan

    assert triton.knobs.runtime.interpret
    bfloat16.install()
    compiled_semantics.install()
    libdevice.install()
    undefined.install()
    sampling.install()
    races.install()
    language_patch.install()
    _let_tensors_be_indices()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # NumPy's, of overflow and division in the kernels' arithmetic
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
            sampling = Sampling(num_programs=plain["num_programs"], seed=plain["seed"])
            result = _run(variant, from_plain(plain["plan"], LaunchPlan), storages, kernels, sampling)
        first, middle = len(outputs), len(outputs) + len(result.outputs)
        outputs += (*result.outputs, *result.written)
        answer = {
            "variant": variant.value,
            "outputs": list(range(first, middle)),
            "written": list(range(middle, len(outputs))),
            "sample": to_plain(result.sample),
            "mutated": list(result.mutated),
            "out_of_bounds": list(result.out_of_bounds),
            "failure": to_plain(result.failure),
            "seconds": time.perf_counter() - began,
        }
        results.append(answer)
    return {"results": results}, outputs


def _num_bytes(buffer: Buffer) -> int:
    return buffer.num_elements * int(getattr(torch, buffer.dtype).itemsize)


def _place(plan: LaunchPlan, given: dict[int, bytes]) -> list[_Storage]:
    """The plan's buffers in one stretch of memory, so that what a stray access meets is the same in every process."""
    sizes = [_num_bytes(buffer) + 2 * GUARD_BYTES for buffer in plan.buffers]
    steps = [-(-size // 16) * 16 for size in sizes]
    arena = torch.zeros(sum(steps), dtype=torch.uint8)
    confine_accesses(arena.data_ptr(), arena.data_ptr() + arena.numel())
    starts = [sum(steps[:index]) for index in range(len(steps))]
    return [
        _Storage(buffer, index, given.get(index), arena[starts[index] : starts[index] + sizes[index]])
        for index, buffer in enumerate(plan.buffers)
    ]


def _find(error: BaseException | None, kind: type[Exception]) -> BaseException | None:
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error


def _run(variant: Variant, plan: LaunchPlan, given: dict[int, bytes], kernels: Any, sampling: Sampling) -> RunResult:
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
        storages = _place(plan, given)
        views = [storages[view.buffer].view(view) for view in plan.outputs]
        writes = follow_writes(plan, [storage.whole for storage in storages]) if sampling.num_programs else None
        for step in plan.steps:
            match step:
                case Fill():
                    storages[step.target.buffer].view(step.target).fill_(float(step.nonfinite or step.value))
                case Copy():
                    source = storages[step.source.buffer].view(step.source)
                    target = storages[step.target.buffer].view(step.target)
                    if writes is not None:
                        writes.carry(source, target)
                    target.copy_(source.clone())
                case Operator():
                    run_operator(step, lambda view: storages[view.buffer].view(view))
                case Launch():
                    _launch(plan.kernels[step.kernel], step, storages, kernels, sampling, writes)
        return RunResult(
            variant=variant,
            outputs=tuple(map(bytes_of, views)),
            written=() if writes is None else tuple(map(writes.bits, views)),
            sample=None if writes is None else writes.sample(),
            mutated=tuple(index for index, storage in enumerate(storages) if storage.is_changed()),
            out_of_bounds=tuple(index for index, storage in enumerate(storages) if not storage.has_intact_guards()),
        )
    except _Cannot as error:
        return RunResult(variant=variant, failure=error.failure)
    except BaseException as error:
        if refused := _find(error, NotKernelLanguage):
            return RunResult(variant=variant, failure=Failure(outcome=Outcome.UNSUPPORTED, message=str(refused)))
        if race := _find(error, DataRace):
            return RunResult(variant=variant, failure=Failure(outcome=Outcome.RUN_FAILED, message=str(race)))
        if _find(error, StrayAccess):
            return RunResult(
                variant=variant, failure=Failure(outcome=Outcome.OUT_OF_BOUNDS, message=str(StrayAccess()))
            )
        return RunResult(variant=variant, failure=describe(error, Outcome.RUN_FAILED))


def _launch(
    kernel: Kernel,
    launch: Launch,
    storages: list[_Storage],
    kernels: Any,
    sampling: Sampling,
    writes: Writes | None,
) -> None:
    function = kernels.kernel(kernel.qualname, kernel.source_sha256)
    if function is None:
        raise _Cannot(Outcome.UNSUPPORTED, f"kernel {kernel.qualname} is not found again in the source")
    annotations = function.fn.__annotations__
    for argument in launch.arguments:
        if argument.kind is ArgumentKind.VIEW and annotations.get(argument.name) == "constexpr":
            raise _Cannot(
                Outcome.UNSUPPORTED, f"argument {argument.name} of {kernel.qualname} is a tensor as constexpr"
            )
    arguments = {argument.name: _value(argument, storages, kernels) for argument in launch.arguments}
    with watching([storage.whole for storage in storages], min(storage.dtype.itemsize for storage in storages)):
        if writes is None:
            function.run(grid=launch.grid, warmup=False, **arguments)
        else:
            run_sample(function, launch.grid, arguments, sampling.draw(launch.grid), writes)


def _value(argument: Argument, storages: list[_Storage], kernels: Any) -> Any:
    import triton.language as tl

    match argument.kind:
        case ArgumentKind.VIEW:
            assert argument.view is not None
            return storages[argument.view.buffer].view(argument.view)
        case ArgumentKind.NONE:
            return None
        case ArgumentKind.BOOL:
            return bool(argument.number)
        case ArgumentKind.FLOAT:
            return float(argument.text if argument.number is None else argument.number)  # type: ignore[arg-type]
        case ArgumentKind.INT:
            return argument.number
        case ArgumentKind.DTYPE:
            return getattr(tl, argument.text or "")
        case ArgumentKind.FUNCTION:
            function = kernels.function(argument.text or "")
            if function is None:
                raise _Cannot(Outcome.UNSUPPORTED, f"function {argument.text} is not found again in the source")
            return function
    return argument.text


def _let_tensors_be_indices() -> None:
    """Let a loop's bound be a tensor: Triton 3.6 converts a 1-element array to int, which NumPy 2.4 refuses."""
    from triton.runtime import interpreter

    original = interpreter._patch_lang_tensor

    def patch(tensor: Any, *rest: Any) -> None:
        original(tensor, *rest)
        tensor.__index__ = lambda self: int(self.handle.data.item())

    interpreter._patch_lang_tensor = patch
