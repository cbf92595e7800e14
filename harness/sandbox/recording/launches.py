"""Kernel launches, intercepted: which kernel, on what grid, with which arguments; compiled on the way where asked.

Every launch goes through `JITFunction.run`, whatever wraps the kernel (autotune, heuristics, `autograd.Function`). With
compilation Triton's own ahead-of-time path runs (`warmup=True`) on stand-ins for the tensors, and an argument counts as
`constexpr` where Triton baked it into the code (annotated ones, and values such as 1 and None that it specialises on);
without compilation annotated ones count, and the number 1 where Triton would specialise on it. Which configuration an
autotuner takes is another matter (`autotuning`).
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import math
from collections.abc import Callable, Iterator
from types import NoneType
from typing import Any

import torch
import triton
from attrs import evolve, frozen
from triton.runtime.jit import JITFunction

from ....core.candidate import Failure
from ....core.outcome import Outcome
from ....core.plan import Argument, ArgumentKind, Kernel, Launch, Step, View
from ..candidate_module import find_disguise, message_of, named_by_its_text, read_text
from .assembler import Assembler
from .compiled_kernel import find_accesses, find_effects
from .fake_tensors import HostConstants
from .refusal import Refusal
from .target import MAX_CLUSTER, MAX_THREADS, Target, count_resident


@frozen(kw_only=True)
class Pointer:
    """Stands for a tensor argument in Triton's binder; a recorded tensor has no address."""

    dtype: torch.dtype
    shape: torch.Size
    offset_bytes: int

    def data_ptr(self) -> int:
        """Return an address as aligned as the view is in an allocation, which starts at a multiple of 256."""
        return self.offset_bytes % 256

    def ptr_range(self) -> int:
        """Return 0: the range is unknown."""
        return 0


class LaunchRecorder:
    """Interposes on Triton; `note_view` describes a tensor argument in the plan's terms."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.assembler = Assembler()
        self.compile = False
        self.is_specialised = True
        self.note_view: Callable[[torch.Tensor], View] | None = None
        self.steps: list[Step] = []
        self.kernels: list[Kernel] = []
        self.blobs: dict[str, bytes] = {}
        self.constants = HostConstants(self.blobs)
        self.compiled: dict[tuple[Any, ...], Kernel] = {}
        self.compile_kernel = JITFunction.run
        """Triton's own, which compiles where it is asked to warm up."""
        self._identities: dict[tuple[Any, Any, str], Kernel] = {}

    def install(self) -> None:
        """Interpose for the rest of this process."""
        recorder = self
        self.assembler.install()

        def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            # a warm-up compiles and launches nothing
            return None if warmup else recorder._launch(kernel, args, grid, kwargs)

        JITFunction.run = run

    def begin(self, compile: bool, is_specialised: bool = True) -> None:
        """Start a plan: no kernels yet, compiled (for the numbers' divisibility, or without it) or only bound."""
        self.compile, self.is_specialised = compile, is_specialised
        self.kernels = []

    def forget(self) -> None:
        """Drop what the warm-up left."""
        self.begin(False)
        self.blobs.clear()
        self.compiled.clear()
        self._identities.clear()
        self.assembler.forget()

    @contextlib.contextmanager
    def recording(self, note_view: Callable[[torch.Tensor], View], steps: list[Step]) -> Iterator[None]:
        """Send launches to a pass's steps; outside of one they are refused."""
        self.kernels, self.note_view, self.steps = [], note_view, steps
        try:
            yield
        finally:
            self.note_view = None

    def _launch(self, kernel: Any, args: tuple[Any, ...], grid: Any, kwargs: dict[str, Any]) -> None:
        if self.note_view is None:
            raise Refusal(Outcome.UNSUPPORTED, "a kernel is launched outside forward")
        if kernel.pre_run_hooks:
            raise Refusal(Outcome.UNSUPPORTED, "kernels with pre-run hooks cannot be recorded")
        bound = _bind(kernel, args, kwargs)
        shape = _grid(grid, bound)
        signature: dict[str, str] = {}
        record = self._identified(kernel)
        self._check_warps(record.qualname, kwargs.get("num_warps"))
        if self.compile:
            record, signature = self._compile(kernel, args, kwargs)
            if record.is_cooperative and self.target.backend == "cuda":
                self._check_residency(record, shape, self.find_registers(kernel, args, kwargs))
        if 0 in shape:
            return  # an empty grid launches nothing
        arguments = tuple(self._argument(parameter, bound[parameter.name], signature) for parameter in kernel.params)
        if record not in self.kernels:
            self.kernels.append(record)
        self.steps.append(Launch(kernel=self.kernels.index(record), grid=shape, arguments=arguments))

    def _identified(self, kernel: Any) -> Kernel:
        # reading a function's text takes half a millisecond, and each recording launches it twice
        key = (kernel.fn, kernel.fn.__code__, kernel.src)
        if key not in self._identities:
            text = read_text(kernel)
            disguised = find_disguise(kernel, text)
            if disguised is not None:
                raise Refusal(Outcome.UNSUPPORTED, f"{disguised} is compiled from another text than the source has")
            source_sha256 = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            self._identities[key] = Kernel(qualname=kernel.fn.__qualname__, source_sha256=source_sha256)
        return self._identities[key]

    def _argument(self, parameter: Any, value: Any, signature: dict[str, str]) -> Argument:
        name = parameter.name
        constexpr = signature[name] == "constexpr" if signature else _is_compiled_in(parameter, value)
        while isinstance(value, triton.language.constexpr):
            value = value.value
        if isinstance(value, torch.Tensor):
            if value.device.type == "cpu":
                raise ValueError(f"Pointer argument '{name}' cannot be accessed from Triton (cpu tensor?)")
            assert self.note_view is not None
            return Argument(name=name, kind=ArgumentKind.VIEW, view=self.note_view(value))
        match value:
            case None:
                return Argument(name=name, kind=ArgumentKind.NONE, constexpr=constexpr)
            case bool():
                if not constexpr and parameter.annotation_type not in ("", "u1"):
                    problem = f"argument '{name}' is a truth value, annotated as a number; pass int({name})"
                    raise Refusal(Outcome.UNSUPPORTED, problem)
                return Argument(name=name, kind=ArgumentKind.BOOL, constexpr=constexpr, number=int(value))
            case int():
                return Argument(name=name, kind=ArgumentKind.INT, constexpr=constexpr, number=int(value))
            case float():
                if value != value or value in (float("inf"), float("-inf")):
                    return Argument(name=name, kind=ArgumentKind.FLOAT, constexpr=constexpr, text=repr(value))
                return Argument(name=name, kind=ArgumentKind.FLOAT, constexpr=constexpr, number=value)
            case str():
                return Argument(name=name, kind=ArgumentKind.STR, constexpr=constexpr, text=value)
            case triton.language.dtype():
                return Argument(name=name, kind=ArgumentKind.DTYPE, constexpr=constexpr, text=_dtype_name(value))
            case JITFunction():
                text = _function_name(value)
                return Argument(name=name, kind=ArgumentKind.FUNCTION, constexpr=constexpr, text=text)
            case tuple() if constexpr and len(value) <= 64 and {*map(type, value)} <= {bool, int, float}:
                return Argument(name=name, kind=ArgumentKind.LIST, constexpr=constexpr, text=json.dumps(value))
        kind, advice = type(value).__name__, "; pass its elements one by one" if isinstance(value, tuple) else ""
        raise Refusal(Outcome.UNSUPPORTED, f"argument '{name}' is a {kind}, which cannot be recorded{advice}")

    def make(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what Triton compiles a launch to; raises Refusal."""
        wrapped = [self._wrap(parameter, value) for parameter, value in zip(kernel.params, args, strict=False)]
        parameters = {parameter.name: parameter for parameter in kernel.params}
        options = {name: self._wrap(parameters.get(name), value) for name, value in kwargs.items()}

        def compile_it() -> Any:
            return self.compile_kernel(kernel, *wrapped, grid=(1,), warmup=True, **options)

        try:
            with named_by_its_text(kernel):
                made = compile_it()
                self.assembler.check(kernel, made, compile_it)
                return made
        except Refusal:
            raise
        except Exception as error:
            failure = find_compile_failure(error)
            raise Refusal(failure.outcome, failure.message) from error

    def _wrap(self, parameter: Any, value: Any) -> Any:
        """Return what Triton's binder is given for an argument: a tensor's stand-in, and a number."""
        if isinstance(value, torch.Tensor):
            offset_bytes = int(value.storage_offset()) * value.element_size()
            return Pointer(dtype=value.dtype, shape=value.shape, offset_bytes=offset_bytes)
        return value if self.is_specialised else for_any_number(parameter, value)

    def find_registers(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Return how many registers a thread of the launch takes; raises Refusal."""
        return self.assembler.find_registers(kernel, lambda: self.make(kernel, args, kwargs), self.target.binary)

    def _compile(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Kernel, dict[str, str]]:
        made = self.make(kernel, args, kwargs)
        name = kernel.fn.__qualname__
        if made.metadata.shared > self.target.shared_bytes:
            raise Refusal(
                Outcome.OUT_OF_RESOURCES,
                f"{name}: out of resource: shared memory, required {made.metadata.shared}, "
                f"hardware limit {self.target.shared_bytes} ({self.target.name})",
            )
        if getattr(made.metadata, "global_scratch_size", 0) and not _has_allocator():
            raise Refusal(Outcome.FORWARD_FAILED, f"{name}: needs memory for its descriptors; see triton.set_allocator")
        self._check_warps(name, made.metadata.num_warps)
        self._check_cluster(name, getattr(made.metadata, "num_ctas", 1))
        binary = made.asm[self.target.binary]
        sha256 = hashlib.sha256(binary).hexdigest()
        launch_options = _options(kernel, kwargs)
        key = (kernel.fn.__qualname__, sha256, launch_options)
        if key not in self.compiled:
            self.blobs[sha256] = binary
            self.compiled[key] = describe_kernel(
                made, kernel, evolve(self._identified(kernel), options=launch_options), self.target.binary
            )
        return self.compiled[key], dict(made.src.signature)

    def _check_warps(self, name: str, num_warps: Any) -> None:
        if not isinstance(num_warps, int):
            return
        if num_warps < 1 or num_warps & (num_warps - 1):
            # Triton says so where it compiles, which is not done at all sizes
            raise Refusal(Outcome.COMPILE_FAILED, f"{name}: num_warps must be a power of 2, got {num_warps}")
        num_threads = num_warps * self.target.warp_size
        if num_threads > MAX_THREADS:
            raise Refusal(
                Outcome.OUT_OF_RESOURCES,
                f"{name}: out of resource: threads, required {num_threads} ({num_warps} warps), "
                f"hardware limit {MAX_THREADS} ({self.target.name})",
            )

    def _check_cluster(self, name: str, num_ctas: int) -> None:
        if num_ctas > MAX_CLUSTER:
            raise Refusal(
                Outcome.OUT_OF_RESOURCES,
                f"{name}: out of resource: clusters, required {num_ctas} blocks (num_ctas), "
                f"hardware limit {MAX_CLUSTER} ({self.target.name})",
            )

    def _check_residency(self, record: Kernel, shape: tuple[int, int, int], registers: int) -> None:
        num_programs = math.prod(shape) * record.num_ctas
        most = count_resident(self.target, record.num_warps or 1, record.shared_bytes or 0, registers)
        if num_programs > most:
            raise Refusal(
                Outcome.OUT_OF_RESOURCES,
                f"{record.qualname}: a cooperative launch of {num_programs} programs, of which {self.target.name} "
                f"holds {most} at a time; launch as many, and let each do several blocks",
            )


def _has_allocator() -> bool:
    """Return whether host code has set where a launch takes scratch memory from (descriptors made in a kernel)."""
    from triton.runtime import _allocation

    return not isinstance(_allocation._allocator.get(), _allocation.NullAllocator)


def describe_kernel(made: Any, function: Any, identity: Kernel, extension: str) -> Kernel:
    """Return what compilation found, added to a kernel's identity and options.

    The child that records and the one that compiles once more both ask here, so that the judge can compare all of it.
    """
    passed = [p.name for p in function.params if made.src.signature.get(p.name, "constexpr") != "constexpr"]
    return evolve(
        identity,
        binary=hashlib.sha256(made.asm[extension]).hexdigest(),
        entry_point=made.metadata.name,
        num_warps=made.metadata.num_warps,
        shared_bytes=made.metadata.shared,
        signature=tuple((name, kind) for name, kind in made.src.signature.items() if kind != "constexpr"),
        num_ctas=getattr(made.metadata, "num_ctas", 1),
        is_cooperative=bool(getattr(made.metadata, "launch_cooperative_grid", False)),
        scratch_bytes=getattr(made.metadata, "global_scratch_size", 0) or 0,
        **find_effects(made.asm["ttir"], passed),
        accesses=find_accesses(made.asm["ttgir"], passed),
    )


def _options(kernel: Any, kwargs: dict[str, Any]) -> tuple[tuple[str, int | float | str | None], ...]:
    """Return the launch's options beside the kernel's parameters, such as num_warps."""
    names = {parameter.name for parameter in kernel.params}
    chosen = {name: value for name, value in kwargs.items() if name not in names}
    for name, value in chosen.items():
        if not isinstance(value, (int, float, str, NoneType)):
            raise Refusal(Outcome.UNSUPPORTED, f"option {name} is a {type(value).__name__}, which cannot be recorded")
    return tuple(sorted(chosen.items()))


def _bind(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    names = {parameter.name for parameter in kernel.params}
    own = {name: value for name, value in kwargs.items() if name in names}
    bound = inspect.signature(kernel.fn).bind(*args, **own)
    bound.apply_defaults()
    return dict(bound.arguments)


def _grid(grid: Any, bound: dict[str, Any]) -> tuple[int, int, int]:
    shape = grid(bound) if callable(grid) else grid
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    shape = shape[:3]  # Triton looks at no fourth one
    if not shape or not all(isinstance(size, int) for size in shape):
        raise TypeError(f"a grid is 1 to 3 integers, not {shape!r}"[:200])
    sizes = (*(int(size) for size in shape), 1, 1)[:3]
    for size, limit in zip(sizes, (2**31 - 1, 65535, 65535), strict=True):
        if size < 0 or size > limit:
            raise Refusal(Outcome.OUT_OF_RESOURCES, f"grid {sizes} is outside what a GPU can launch")
    return sizes[0], sizes[1], sizes[2]


def _is_compiled_in(parameter: Any, value: Any) -> bool:
    """Return whether Triton would make a constant of an argument."""
    is_one = type(value) is int and value == 1
    is_free = not (parameter.do_not_specialize or parameter.annotation_type)
    return bool(parameter.is_constexpr or (is_one and is_free))


def _dtype_name(dtype: Any) -> str:
    names = {id(getattr(triton.language, name)): name for name in dir(triton.language)}
    for name in ("float16", "bfloat16", "float32", "float64", "int1", "int8", "int16", "int32", "int64", "uint8"):
        if getattr(triton.language, name) == dtype:
            return name
    if id(dtype) in names:
        return names[id(dtype)]
    raise Refusal(Outcome.UNSUPPORTED, f"dtype {dtype} cannot be recorded")


def _function_name(function: Any) -> str:
    module, qualname = function.fn.__module__, function.fn.__qualname__
    return qualname if module == "candidate" else f"{module}:{qualname}"


def for_any_number(parameter: Any, value: Any) -> Any:
    """Return what Triton's binder is given for an argument where code is to be for any numbers."""
    is_free = parameter is not None and not parameter.is_constexpr and type(value) is int
    # the binder reads of a number its width, whether it is 1, and whether 16 divides it
    return value + 2 if is_free and value % 16 == 0 else value


def find_compile_failure(error: BaseException) -> Failure:
    """Return what an exception of Triton's compiler means."""
    return Failure(_compile_outcome(error), _compile_message(error))


def _compile_outcome(error: BaseException) -> Outcome:
    if isinstance(error, triton.runtime.errors.OutOfResources):
        return Outcome.OUT_OF_RESOURCES
    if isinstance(error, MemoryError):
        return Outcome.MEMORY_LIMIT
    return Outcome.COMPILE_FAILED


def _compile_message(error: BaseException) -> str:
    """Return Triton's own words: the innermost message, after the place that the outer ones print."""
    innermost = error
    while innermost.__cause__ is not None:
        innermost = innermost.__cause__
    lines = [line.strip() for line in str(innermost).splitlines() if line.strip() and set(line.strip()) != {"^"}]
    place = str(error).splitlines()[0].rstrip(":") if str(error).startswith("at ") else ""
    if not lines:
        return message_of(error)
    if innermost is error and str(error).startswith("at "):
        lines = lines[-1:]
    text = " ".join(lines)
    return f"{place}: {text}"[:500] if place and not text.startswith("at ") else text[:500]
